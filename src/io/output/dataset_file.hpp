// A file with one contiguous data set, as written by `generate`. One rank creates it with HDF5,
// then all ranks write its bytes in parallel without HDF5, and one rank publishes it.
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
#include "types/element.hpp"

namespace shardstream::io {

/// The owner of the file on the rank that creates it. The destructor removes the file unless it is
/// published.
class DatasetFile {
 public:
  /// Creates the part file of `path` with the data set `dataset` ("/a/b"; groups are created) of
  /// `shape`, reserves its storage on disk, and closes it. Throws UsageError if the name exists,
  /// the folder is not writable, or the disk does not have enough space.
  DatasetFile(const std::filesystem::path& path, Overwrite overwrite, const std::string& uuid,
              const std::string& dataset, ElementType type,
              const std::vector<std::uint64_t>& shape);

  /// The arguments for a RangeWriter on any rank.
  const std::filesystem::path& part_path() const { return part_.part_path(); }
  std::uint64_t offset() const { return offset_; }

  /// Gives the file its final name. Call it after every writer's sync(). Throws Error.
  void publish() { part_.publish(); }

 private:
  PartFile part_;
  std::uint64_t offset_ = 0;
};

/// Writes elements into a data set of a DatasetFile or a ResultFile. Any number of writers may
/// write disjoint ranges in parallel.
class RangeWriter {
 public:
  /// Opens `part_path`. The bytes of the data set begin at `offset`; its rows have `columns`
  /// elements. Throws Error.
  RangeWriter(std::filesystem::path part_path, std::uint64_t offset, ElementType type,
              std::uint64_t columns = 1);

  /// Writes elements from index `first` on; `data` has whole elements. Thread-safe. Throws Error.
  void write(std::uint64_t first, std::span<const std::byte> data) const;

  /// Writes a rectangle whose rows have a pitch of `stride` bytes at `data`: in one piece if it is
  /// contiguous in the file and in memory, else row by row. Thread-safe. Throws Error.
  void write(Range rows, Range columns, const std::byte* data, std::size_t stride) const;

  /// Blocks until everything written by this object is on disk. Throws Error.
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

/// The size of a data set of `shape` in bytes. Throws ContractError unless it is between 1 and
/// 2^63 - 1.
std::uint64_t bytes_of(ElementType type, const std::vector<std::uint64_t>& shape);

// Functions for data sets of a DatasetFile or a ResultFile, whose storage is allocated when they
// are created and is never filled by HDF5.

/// Properties for creating a file whose data sets begin at a multiple of 4096, so that they can be
/// read past the page cache. Needs the lock.
hdf5::Properties aligned_access();

/// Creates the data set `path` in `file`, with its groups, and returns the offset of its bytes in
/// the file. Flushes the file, so that HDF5 later only writes its own structures. Throws Error.
/// Needs the lock.
std::uint64_t lay_out(const hdf5::File& file, const std::string& path, ElementType type,
                      const std::vector<std::uint64_t>& shape);

}  // namespace shardstream::io
