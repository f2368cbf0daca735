// A file that is written under a name of its own, `.NAME.UUID.part` in the same folder, and appears
// under its final name only when it is complete. Result files and generated data are both made so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.hpp"

namespace shardstream::io {

/// What the part file of `path` is called in the run `uuid`; known beforehand, so that a signal
/// handler which must remove it can stand ready before it is there.
std::filesystem::path part_path_of(const std::filesystem::path& path, const std::string& uuid);

/// What of the MIDDLEs of files `.NAME.MIDDLE.END` beside `path` has `dots` dots: none in a run's
/// uuid; with more it belongs to another, longer NAME.
std::vector<std::string> middles_beside(const std::filesystem::path& path, std::string_view end,
                                        int dots);

/// Tells others that the writer of the file lives, until it is closed. What the file system has no
/// locks for is passed over.
void lock_as_writer(const Descriptor& file);

/// A part file or a journal, its lock taken over if its writer is gone.
struct HeldFile {
  enum class Writer {
    gone,
    alive,    ///< or another user's
    unknown,  ///< the file system has no locks
    no_file   ///< there is no such file
  };
  Writer writer;
  Descriptor file;  ///< holds the lock, if the writer is gone
};
HeldFile hold(const std::filesystem::path& path);
/// Whether its writer is known to live; takes no lock.
bool has_writer(const std::filesystem::path& path);

/// Returns when the names in the folder of `path` are on disk. Throws Error.
void sync_folder_of(const std::filesystem::path& path);

/// Throws UsageError if `path` is one of the files `inputs`, under any name: a result in its place
/// would be the end of the data. Empty names and those of no file are passed over.
void refuse_input(const std::filesystem::path& path, std::span<const std::filesystem::path> inputs);

/// Throws UsageError where a PartFile of `path` for a run could not be made, or not reserve
/// `bytes`, as far as that can be seen while nothing is written.
void expect_place(const std::filesystem::path& path, bool overwrite, std::uint64_t bytes);

/// What a file is for; an error's remedy goes by it.
enum class Contents { of_run, generated };

class PartFile {
 public:
  /// Creates the empty part file, and holds a lock on it that tells others its writer lives. Before
  /// that, part files of the same NAME whose writers are gone are removed, but for those with
  /// journals (checkpoint.hpp). Throws UsageError when `path` exists and may not be replaced, as no
  /// device, FIFO or socket may be, or cannot be made.
  PartFile(std::filesystem::path path, bool overwrite, const std::string& uuid, Contents contents);
  /// Removes the part file unless it was published or is to be kept.
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  /// Reserves room on disk for the first `bytes`, or the little that any file takes if that is
  /// more, without changing the file's size. Throws UsageError when there is not enough. A file
  /// system that cannot reserve is only asked for what it has free now.
  void reserve(std::uint64_t bytes);

  /// Gives back what the file takes on disk, for a writer that must still close it after a failure:
  /// on a full disk that needs some room.
  void abandon();

  /// From now on the part file stays: a later run goes on from it. What is published then is the
  /// same file under a second name; where the file system has no hard links it has that one alone.
  void keep() { kept_ = true; }

  /// Syncs the file, gives it its final name and syncs the folder. Throws Error when `path` has
  /// come to exist meanwhile and may not be replaced, or on any failure.
  void publish();

  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& part_path() const { return part_path_; }

 private:
  void create();
  bool lock_and_keep();
  void link_into_place();

  std::filesystem::path path_, part_path_;
  std::string uuid_;
  bool overwrite_;
  Contents contents_;
  bool published_ = false, kept_ = false;
  Descriptor file_;
};

}  // namespace shardstream::io
