// A file with one contiguous data set, as `generate` makes it: HDF5 lays it out on one rank, then
// many ranks write its bytes side by side without HDF5, and one of them publishes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/descriptor.hpp"
#include "core/shard.hpp"
#include "io/hdf5/handles.hpp"
#include "io/output/part_file.hpp"
#include "kernels/data/element.hpp"

namespace shardstream::io {

/// What the rank that lays the file out holds until all have written; the file is removed when this
/// is destroyed unpublished.
class DatasetFile {
 public:
  /// Creates the part file of `path` with the data set `dataset` ("/a/b"; groups are made) of
  /// `shape`, its storage reserved on disk, and closes it. Throws UsageError when the name is
  /// taken, the folder cannot be written to or the disk has no room.
  DatasetFile(const std::filesystem::path& path, Overwrite overwrite, const std::string& uuid,
              const std::string& dataset, ElementType type,
              const std::vector<std::uint64_t>& shape);

  /// What a RangeWriter on any rank needs.
  const std::filesystem::path& part_path() const { return part_.part_path(); }
  std::uint64_t offset() const { return offset_; }

  /// After every writer has synced: gives the file its name. Throws Error.
  void publish() { part_.publish(); }

 private:
  PartFile part_;
  std::uint64_t offset_ = 0;
};

/// Writes elements into a data set that a DatasetFile or a ResultFile has laid out; any number of
/// them at once, on disjoint ranges.
class RangeWriter {
 public:
  /// Opens `part_path`, the data set's bytes beginning at `offset`; its rows have `columns`
  /// elements. Throws Error.
  RangeWriter(std::filesystem::path part_path, std::uint64_t offset, ElementType type,
              std::uint64_t columns = 1);

  /// Writes elements from `first` on; `data` is whole elements. Thread-safe. Throws Error.
  void write(std::uint64_t first, std::span<const std::byte> data) const;

  /// Writes a rectangle whose rows stand `stride` bytes apart at `data`: in one piece if it is one
  /// in the file and in memory, else row by row. Thread-safe. Throws Error.
  void write(Range rows, Range columns, const std::byte* data, std::size_t stride) const;

  /// Returns when everything written here is on disk. Throws Error.
  void sync() const;

  std::uint64_t offset() const { return offset_; }  ///< in the file, in bytes
  ElementType type() const { return type_; }
  std::uint64_t columns() const { return columns_; }

 private:
  std::filesystem::path path_;
  std::uint64_t offset_;
  ElementType type_;
  std::uint64_t columns_;
  Descriptor file_;
};

/// Bytes that a data set of `shape` has. ContractError unless they are between 1 and 2^63 - 1.
std::uint64_t bytes_of(ElementType type, const std::vector<std::uint64_t>& shape);

// A data set whose storage is in the file from the start and is never filled; of a DatasetFile or a
// ResultFile.

/// How a file with such data sets is made: they begin at a multiple of 4096, so that they can be
/// read past the page cache. Needs the lock.
hdf5::Properties aligned_access();

/// Makes the data set `path` in `file`; groups on the way are made. Returns where in the file its
/// bytes begin. The file is flushed, so that what HDF5 writes from now on are its own structures
/// alone. Throws Error. Needs the lock.
std::uint64_t lay_out(const hdf5::File& file, const std::string& path, ElementType type,
                      const std::vector<std::uint64_t>& shape);

}  // namespace shardstream::io
