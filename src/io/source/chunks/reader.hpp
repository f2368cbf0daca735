// Reads chunked data sets without HDF5's own decoder, in any number of threads at once. HDF5 gives
// the address of a chunk; the thread reads its bytes and decodes them.
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
  std::uint64_t element;  ///< size of an element in the file, in bytes
  ReadOrder read_order;   ///< rectangles are read band by band of chunks, elements chunk by chunk
};

class ChunkReader {
 public:
  /// Returns null if the data set has a filter that ChunkFilters does not know. Takes the lock.
  /// Throws Error.
  static std::unique_ptr<ChunkReader> open(const hdf5::Dataset& dataset, ChunkLayout layout);

  /// Announces the chunks that this process will read, as a range of chunk numbers, or for
  /// ReadOrder::rectangles as a range of bands (steps of one chunk along dimension 0). No other
  /// chunks are decoded ahead. Not thread-safe: no thread may read meanwhile.
  void prepare(Range chunks) { prepared_ = chunks; }

  /// The number of chunks in one band.
  std::uint64_t chunks_in_a_band() const;
  /// The row-major number of the chunk that contains an element.
  std::uint64_t number_of(std::span<const std::uint64_t> coordinates) const;
  /// Nothing if the data set has no filters.
  std::optional<Decoding> decoding() const;

  /// Writes the block at `start` to `out` in the stored type: element (i, j, ...) of the block to
  /// the offset i * pitch[0] + j * pitch[1] + ..., in elements. Thread-safe. Throws Error with the
  /// data set and the chunk.
  void read(std::span<const std::uint64_t> start, std::span<const std::uint64_t> extent,
            std::span<const std::uint64_t> pitch, std::byte* out) const;

 private:
  /// The intersection of a block with one chunk.
  struct Part {
    std::uint64_t number;
    Extents chunk_start, start, extent;  // `start` is relative to the chunk
    std::uint64_t count, out;            // the number of elements, and their offset in `out`
  };
  class Loan;

  ChunkReader(ChunkLayout layout, ChunkFilters filters, bool filters_edges, Extents grid,
              Descriptor file, std::unique_ptr<ChunkIndex> index, std::vector<std::byte> fill);

  std::vector<Part> parts_of(std::span<const std::uint64_t> start,
                             std::span<const std::uint64_t> extent,
                             std::span<const std::uint64_t> pitch) const;
  std::uint64_t elements_in(std::span<const std::uint64_t> chunk_start) const;
  bool is_unfiltered(const StoredChunk& stored, std::span<const std::uint64_t> chunk_start) const;
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
  mutable std::mutex mutex_;  // guards the members below
  mutable std::vector<std::unique_ptr<DecodingRoom>> rooms_;
  mutable std::uint64_t front_ = 0;  // the last step that a read has reached
};

}  // namespace shardstream::io
