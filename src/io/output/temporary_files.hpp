// The temporary files of a run next to its output: a part file, `.NAME.UUID.part`, and, for a
// resumable run, a journal of each rank, `.NAME.UUID.RANK.checkpoint`. Their writers lock them. The
// folder may be writable by other users, so a file with such a name may have any contents: only a
// regular file of this user with the expected beginning is accepted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.hpp"

namespace shardstream::io {

/// The permissions of temporary files: access only for this user.
inline constexpr unsigned private_mode = 0600;

/// The path of the part file of `path` in the run `uuid`. It is known before the file exists, so
/// that a signal handler that removes it can be installed first.
std::filesystem::path part_path_of(const std::filesystem::path& path, const std::string& uuid);
/// The path of the journal of `rank`.
std::filesystem::path journal_path_of(const std::filesystem::path& path, const std::string& uuid,
                                      int rank);

/// The maximum size of a journal that is written or read. It suffices for more than 300 000 pieces.
inline constexpr std::uint64_t max_journal_bytes = std::uint64_t{64} << 20;
/// The beginning of a journal after the checksum of its first line.
std::string journal_start(const std::string& uuid, std::uint64_t rank);

/// A file whose name has the form of a part file or a journal.
struct TemporaryFile {
  enum class Kind { part, journal };

  std::filesystem::path path;
  std::string uuid;  ///< of the run that made it
  Kind kind;
  std::uint64_t rank = 0;  ///< of a journal
};

/// All part files and journals of `path`, in the order of their names.
std::vector<TemporaryFile> temporary_files_of(const std::filesystem::path& path);

/// Locks the file until it is closed, which tells other processes that its writer is alive. Returns
/// false if the file system has no locks. May block for a moment.
bool lock_as_writer(const Descriptor& file);

/// A run file that was opened once and checked.
struct OpenedTemporaryFile {
  enum class Writer {
    gone,
    alive,
    unknown,  ///< the file system has no locks
    no_file,  ///< there is no such file
    foreign   ///< the file does not belong to a run of this user
  };
  Writer writer;
  Descriptor file;      ///< not valid if there is no file or it is foreign
  std::string problem;  ///< for a foreign file: "is a symbolic link"
};

/// Whether to take over the lock of a file whose writer has ended.
enum class Locking { take, leave };
/// With Locking::take, the returned descriptor holds the lock, so that no other process takes the
/// file over.
OpenedTemporaryFile open_temporary_file(const TemporaryFile& file, Locking locking);

/// Removes the part files of `path` whose writers have ended, unless there is a journal of the same
/// run. Files that cannot be removed are ignored.
void remove_stale_parts(const std::filesystem::path& path);

}  // namespace shardstream::io
