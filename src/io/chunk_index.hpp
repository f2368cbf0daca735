// Where the chunks of a data set stand in its file, one by one. HDF5 1.10 has no call that says it
// without walking over all chunks (H5Dget_chunk_info), so the file is opened once more with a file
// driver that notes the place that H5Dread_chunk asks for, instead of reading it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "io/hdf5.hpp"

namespace shardstream::io {

/// The bytes of a chunk as they are in the file.
struct StoredChunk {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  ///< 0: the chunk was never written
  std::uint32_t mask = 0;   ///< of the filters that were left out: bit i for the i-th
};

class ChunkIndex {
 public:
  /// Of the data set `path` in `file`, which holds it itself; `name` is its name in messages. Takes
  /// the lock. Throws Error.
  ChunkIndex(const std::filesystem::path& file, const std::string& path, std::string name,
             std::uint64_t chunks);
  ~ChunkIndex();
  ChunkIndex(const ChunkIndex&) = delete;
  ChunkIndex& operator=(const ChunkIndex&) = delete;

  /// The chunk whose first element has the coordinates `start`; `number` is one of its own. Takes
  /// the lock unless the chunk was looked up lately. Thread-safe. Throws Error.
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
  mutable std::mutex mutex_;           // guards the next one
  mutable std::vector<Known> lately_;  // each at the place of its number modulo the size
};

}  // namespace shardstream::io
