// The files that the bytes of a data set come from: the file that the user named, the files that
// external links lead to, the sources of virtual data sets and external storage, recursively. A
// result must not replace them, and a checkpoint or a result is only as good as they are unchanged.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace shardstream::io {

/// A file as it was when it was looked at.
struct InputFile {
  std::string option = {};     ///< that names the input: "input.a"
  std::filesystem::path path;  ///< absolute
  std::string dataset;         ///< the path of the data set in it; empty if it is not HDF5
  std::uint64_t device = 0, inode = 0, size = 0;  ///< `size` in bytes
  std::int64_t modified = 0;                      ///< nanoseconds since 1970

  bool operator==(const InputFile&) const = default;
};

/// Where the elements of a data set come from.
struct Origin {
  std::vector<InputFile> files;       ///< each pair of file and data set once, the named one first
  std::string layout;                 ///< of the named data set: "chunks 64x64, 1 filter, f32"
  std::vector<std::string> warnings;  ///< sentences for the user
};

/// What elements count as that were never written.
enum class Unwritten {
  fill,   ///< the data set's fill value, with a warning
  reject  ///< an error
};

/// Adds what `to` does not have yet.
void add(Origin& to, const Origin& from);

/// Looks at a file. Throws UsageError if it cannot be reached.
InputFile look_at(const std::filesystem::path& path, const std::string& dataset = {});

/// What has changed of `file` since look_at(), in a sentence that names it; empty if nothing has.
std::string change_of(const InputFile& file);

/// Traces the data set `path` of `file`. Throws UsageError if a file that it needs is missing,
/// shorter than it must be, or a FIFO, device or socket; if virtual data sets refer to each other
/// in a circle; and, with Unwritten::reject, if elements were never written. Takes HDF5's lock.
Origin trace_origin(const std::filesystem::path& file, const std::string& path,
                    Unwritten unwritten);

/// Throws UsageError if `path` is one of `inputs`, under this or any other name (hard and symbolic
/// links): a result in its place would destroy the data.
void protect_inputs(const std::filesystem::path& path, std::span<const InputFile> inputs);

}  // namespace shardstream::io
