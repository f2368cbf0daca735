// Reads chunked data sets without HDF5's own decoder, by any number of threads at once: HDF5 says
// where a chunk stands, and the thread reads its bytes and undoes its filters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/descriptor.hpp"
#include "core/shard.hpp"
#include "io/hdf5/handles.hpp"
#include "io/source/chunks/decoded.hpp"
#include "io/source/chunks/filters.hpp"
#include "io/source/chunks/index.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {

/// A chunked data set.
struct ChunkLayout {
  std::string name;                   ///< FILE:/PATH, for messages
  std::vector<std::uint64_t> stored;  ///< its shape
  std::vector<std::uint64_t> chunk;
  std::uint64_t element;  ///< bytes of one in the file
  bool by_bands;          ///< reads are rectangles, band of chunks by band; else chunk by chunk
};

class ChunkReader {
 public:
  /// Returns null if the data set has a filter that ChunkFilters does not know. Takes the lock.
  /// Throws Error.
  static std::unique_ptr<ChunkReader> open(const hdf5::Dataset& dataset, ChunkLayout layout);

  /// Says which chunks this process will read: a range of bands (steps of one chunk along dimension
  /// 0) if ChunkLayout::by_bands is set, else a range of chunk numbers. No other chunk is decoded
  /// ahead. Not to be called while a thread reads.
  void prepare(Range chunks) { prepared_ = chunks; }

  /// Chunks along the dimensions after the first one.
  std::uint64_t chunks_in_a_band() const;
  /// Returns the row-major number of the chunk that holds an element.
  std::uint64_t number_of(std::span<const std::uint64_t> coordinates) const;
  /// Returns nothing if the data set has no filters.
  std::optional<Decoding> decoding() const;

  /// Writes the block at `start` to `out` as it is stored, its element (i, j, ...) at
  /// i * pitch[0] + j * pitch[1] + ... elements. Thread-safe. Throws Error naming the data set and
  /// the chunk.
  void read(std::span<const std::uint64_t> start, std::span<const std::uint64_t> extent,
            std::span<const std::uint64_t> pitch, std::byte* out) const;

 private:
  using Extents = std::vector<std::uint64_t>;

  /// The intersection of a block with one chunk.
  struct Part {
    std::uint64_t number;
    Extents chunk_start, start, extent;  // `start` in the chunk
    std::uint64_t count, out;            // elements
  };
  class Loan;

  ChunkReader(ChunkLayout layout, ChunkFilters filters, bool filters_edges, Extents grid,
              Descriptor file, std::unique_ptr<ChunkIndex> index, std::vector<std::byte> fill);

  std::vector<Part> parts_of(std::span<const std::uint64_t> start,
                             std::span<const std::uint64_t> extent,
                             std::span<const std::uint64_t> pitch) const;
  std::uint64_t elements_in(std::span<const std::uint64_t> chunk_start) const;
  bool is_stored_as_is(const StoredChunk& stored, std::span<const std::uint64_t> chunk_start) const;
  bool try_read(const Part& part, std::span<const std::uint64_t> pitch, std::byte* out,
                DecodingRoom& room) const;
  void read_plain(const Part& part, const StoredChunk& stored, std::span<const std::uint64_t> pitch,
                  std::byte* out, DecodingRoom& room) const;
  void decode(const StoredChunk& stored, std::span<const std::uint64_t> chunk_start, std::byte* out,
              DecodingRoom& room) const;
  bool decode_ahead(const std::vector<Part>& parts, DecodingRoom& room) const;
  void read_bytes(std::uint64_t address, std::uint64_t bytes, std::byte* out,
                  std::span<const std::uint64_t> chunk_start) const;
  void copy(const Part& part, const std::byte* chunk, std::span<const std::uint64_t> pitch,
            std::byte* out) const;
  void fill(const Part& part, std::span<const std::uint64_t> pitch, std::byte* out) const;
  std::uint64_t step_of(std::uint64_t number) const;
  void note_step(std::uint64_t step) const;
  [[noreturn]] void fail(std::span<const std::uint64_t> chunk_start,
                         const std::string& reason) const;

  ChunkLayout layout_;
  ChunkFilters filters_;
  bool filters_edges_;
  Extents grid_, pitch_;  // chunks along each dimension; the pitch inside a chunk
  std::uint64_t chunk_bytes_, chunk_elements_;
  Descriptor file_;
  std::unique_ptr<ChunkIndex> index_;
  std::vector<std::byte> fill_;  // one element
  Range prepared_{0, 0};
  mutable DecodedChunks decoded_;
  mutable std::mutex mutex_;  // guards the next two
  mutable std::vector<std::unique_ptr<DecodingRoom>> rooms_;
  mutable std::uint64_t front_ = 0;  // the furthest step that a read has come to
};

}  // namespace shardstream::io
