// A file with one contiguous data set, as `generate` makes it: HDF5 lays it out on one rank, then
// many ranks write its bytes side by side without HDF5, and one of them publishes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "core/descriptor.hpp"
#include "io/part_file.hpp"
#include "kernels/data/element.hpp"

namespace shardstream::io {

/// What the rank that lays the file out holds until all have written; the file is removed when this
/// is destroyed unpublished.
class DatasetFile {
 public:
  /// Creates the part file of `path` with the 1-D data set `dataset` ("/a/b"; groups are made) of
  /// `count` elements, their storage reserved on disk, and closes it. Throws UsageError when the
  /// name is taken, the folder cannot be written to or the disk has no room.
  DatasetFile(const std::filesystem::path& path, bool overwrite, const std::string& uuid,
              const std::string& dataset, ElementType type, std::uint64_t count);

  /// What a RangeWriter on any rank needs.
  const std::filesystem::path& part_path() const { return part_.part_path(); }
  std::uint64_t offset() const { return offset_; }

  /// After every writer has synced: gives the file its name. Throws Error.
  void publish() { part_.publish(); }

 private:
  PartFile part_;
  std::uint64_t offset_ = 0;
};

/// Writes elements into a laid-out data set; any number of them at once, on disjoint ranges.
class RangeWriter {
 public:
  /// Opens `part_path`, the data set's bytes beginning at `offset`. Throws Error.
  RangeWriter(std::filesystem::path part_path, std::uint64_t offset, ElementType type);

  /// Writes elements from `first` on; `data` is whole elements. Thread-safe. Throws Error.
  void write(std::uint64_t first, std::span<const std::byte> data) const;

  /// Returns when everything written here is on disk. Throws Error.
  void sync() const;

 private:
  std::filesystem::path path_;
  std::uint64_t offset_;
  ElementType type_;
  Descriptor file_;
};

}  // namespace shardstream::io
