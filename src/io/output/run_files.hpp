// The files that a run keeps beside its output while it works: a part file, `.NAME.UUID.part`, and
// of a resumable one a journal of each rank, `.NAME.UUID.RANK.checkpoint`. Their writers hold locks
// on them. The folder may be writable by others, so that a file with such a name can be anything:
// only a regular file of this user with the right beginning is taken for a run's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.hpp"

namespace shardstream::io {

/// Permissions while a run works: for this user alone.
inline constexpr unsigned private_mode = 0600;

/// The part file of `path` in the run `uuid`; known beforehand, so that a signal handler which must
/// remove it can stand ready before it is there.
std::filesystem::path part_path_of(const std::filesystem::path& path, const std::string& uuid);
/// Likewise the journal of `rank`.
std::filesystem::path journal_path_of(const std::filesystem::path& path, const std::string& uuid,
                                      int rank);

/// How a trace begins.
inline constexpr std::string_view trace_start =
    "{\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"run_uuid\":";

/// How a report page begins.
inline constexpr std::string_view page_start = "<!DOCTYPE html>\n<!-- shardstream report -->";

/// The longest journal that is written or read. It has room for more than 300 000 pieces.
inline constexpr std::uint64_t max_journal_bytes = std::uint64_t{64} << 20;
/// How the text of a journal begins behind the checksum of its first line.
std::string journal_start(const std::string& uuid, std::uint64_t rank);

/// A file whose name has the form of a part file or a journal.
struct RunFile {
  enum class Kind { part, journal };

  std::filesystem::path path;
  std::string uuid;  ///< of the run that made it
  Kind kind;
  std::uint64_t rank = 0;  ///< of a journal
};

/// All of them beside `path`, by name.
std::vector<RunFile> run_files_beside(const std::filesystem::path& path);

/// Tells other processes that the writer of the file lives, until it is closed. False if the file
/// system has no locks. May wait for a moment.
bool lock_as_writer(const Descriptor& file);

/// A run file that was opened once and checked.
struct OpenedRunFile {
  enum class Writer {
    gone,
    alive,
    unknown,  ///< the file system has no locks
    no_file,  ///< there is no such file
    foreign   ///< this is no file of a run of this user
  };
  Writer writer;
  Descriptor file;      ///< not valid if there is none or it is foreign
  std::string problem;  ///< of a foreign file: "is a symbolic link"
};

/// Whether to take over the lock of a file whose writer is gone.
enum class Locking { take, leave };
/// With Locking::take the returned descriptor holds the lock, and no other process takes the file.
OpenedRunFile open_run_file(const RunFile& file, Locking locking);

/// Removes the part files of `path` whose writers are gone, unless there is a journal of the same
/// run. What cannot be removed stays.
void remove_stale_parts(const std::filesystem::path& path);

}  // namespace shardstream::io
