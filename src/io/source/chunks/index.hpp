// Finds the address of a chunk in its file. The only call of HDF5 1.10 for this purpose walks over
// all chunks (H5Dget_chunk_info). So the file is opened a second time, with a file driver that
// records the address that H5Dread_chunk requests and reads nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// The bytes of a chunk as they are in the file.
struct StoredChunk {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  ///< 0: the chunk was never written
  std::uint32_t mask = 0;   ///< bit i is set if filter i was skipped
};

class ChunkIndex {
 public:
  /// Opens the data set `path` of `file`, which must contain the data set itself, not a link to
  /// another file. `name` is its name in messages, `chunks` the number of its chunks. Takes the
  /// lock. Throws Error.
  ChunkIndex(const std::filesystem::path& file, const std::string& path, std::string name,
             std::uint64_t chunks);
  ~ChunkIndex();
  /// The memory of an index of `chunks` chunks in bytes, without HDF5's.
  static std::uint64_t bytes_of(std::uint64_t chunks);
  ChunkIndex(const ChunkIndex&) = delete;
  ChunkIndex& operator=(const ChunkIndex&) = delete;

  /// Returns the chunk whose first element has the coordinates `start`. `number` identifies the
  /// chunk. Takes the lock unless the chunk was looked up recently. Thread-safe. Throws Error.
  StoredChunk find(std::uint64_t number, std::span<const std::uint64_t> start) const;

 private:
  struct Probe;
  struct Driver;
  struct Known {
    std::uint64_t number;
    StoredChunk chunk;
  };

  StoredChunk look_up(std::span<const std::uint64_t> start) const;

  std::string name_;
  std::unique_ptr<Probe> probe_;  // the driver writes to it, while the lock is held
  hdf5::Owner<H5FDunregister> driver_;
  hdf5::File file_;
  hdf5::Dataset dataset_;
  mutable std::mutex mutex_;           // guards `recent_`
  mutable std::vector<Known> recent_;  // chunk n has the index n modulo the size
};

}  // namespace shardstream::io
