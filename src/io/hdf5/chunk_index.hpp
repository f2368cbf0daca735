// Finds the address of a chunk in its file. The only call of HDF5 1.10 for this purpose walks over
// all chunks (H5Dget_chunk_info). So the file is opened a second time, with a file driver that
// records the address that H5Dread_chunk requests and reads nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/descriptor.hpp"
#include "io/description/format.hpp"
#include "io/hdf5/handles.hpp"

namespace shardstream::io {

class ChunkIndex final : public ChunkStore {
 public:
  /// Opens the data set of about.place. Takes the lock. Throws Error.
  explicit ChunkIndex(const Description& about);
  ~ChunkIndex() override;
  /// The memory of an index of `chunks` chunks in bytes, without HDF5's.
  static std::uint64_t bytes_of(std::uint64_t chunks);

  /// Takes the lock unless the chunk was looked up recently.
  StoredChunk find(std::uint64_t number, std::span<const std::uint64_t> start) const override;
  void visit_files(const UseFile& use) const override { use(*bytes_); }

 private:
  struct Probe;
  struct Driver;
  struct Known {
    std::uint64_t number, address, bytes;
    std::uint32_t mask;
  };

  StoredChunk look_up(std::span<const std::uint64_t> start) const;

  std::string name_;
  std::shared_ptr<const Descriptor> bytes_;
  std::unique_ptr<Probe> probe_;  // the driver writes to it, while the lock is held
  hdf5::Owner<H5FDunregister> driver_;
  hdf5::File file_;
  hdf5::Dataset dataset_;
  mutable std::mutex mutex_;           // guards `recent_`
  mutable std::vector<Known> recent_;  // chunk n has the index n modulo the size
};

}  // namespace shardstream::io
