// Reads chunked data sets without the library of their format, in any number of threads at once.
// The format gives the address of a chunk; the thread reads its bytes and decodes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/shard.hpp"
#include "io/description/format.hpp"
#include "io/source/chunks/decoded.hpp"
#include "io/source/chunks/decoding_memory.hpp"
#include "io/source/chunks/filters.hpp"
#include "io/source/source.hpp"
#include "io/source/strided.hpp"

namespace shardstream::io {

/// A chunked data set.
struct ChunkLayout {
  std::string name;  ///< FILE:/PATH, for messages
  Extents shape, chunk;
  Selection selection;    ///< the elements that are read
  std::uint64_t element;  ///< size of an element in the file, in bytes
  ReadOrder read_order;   ///< blocks are read band by band of chunks, elements chunk by chunk
  std::shared_ptr<DecodingMemory> memory;  ///< which other readers may share
};

/// How the bytes of a chunk become its elements.
struct ChunkCoding {
  ChunkFilters filters;
  bool filters_edges;           ///< whether chunks at the edges are filtered, too
  std::vector<std::byte> fill;  ///< one element
};

class ChunkReader {
 public:
  ChunkReader(ChunkLayout layout, ChunkCoding coding, std::unique_ptr<const ChunkStore> store);

  const ChunkStore& store() const { return *store_; }

  /// Announces the chunks that this process will read, as a range of chunk numbers, or for
  /// ReadOrder::blocks as a range of bands (steps of one chunk along dimension 0). No other
  /// chunks are decoded ahead. Not thread-safe: no thread may read meanwhile.
  void prepare(Range chunks) { prepared_ = chunks; }

  /// The number of chunks in one band.
  std::uint64_t chunks_in_a_band() const;
  /// The row-major number of the chunk that contains an element.
  std::uint64_t number_of(std::span<const std::uint64_t> coordinates) const;
  /// Nothing if the data set has no filters.
  std::optional<Decoding> decoding() const { return decoding_of(layout_, coding_.filters); }
  /// The same for a data set that is not open.
  static std::optional<Decoding> decoding_of(const ChunkLayout& layout,
                                             const ChunkFilters& filters);

  /// Writes a block of selected elements to `out` in the stored type. `start` and `extent` are in
  /// selected indices. Thread-safe. Throws Error with the data set and the chunk.
  void read(const Extents& start, const Extents& extent, const Pitches& pitch,
            std::byte* out) const;

 private:
  /// The intersection of a block with one chunk.
  struct ChunkBlock {
    std::uint64_t number;
    Extents chunk_start, start, extent;  // `start` is relative to the chunk
    std::uint64_t count, out;            // the number of elements; their offset in `out` in bytes
  };

  std::vector<ChunkBlock> parts_of(const Extents& start, const Extents& extent,
                                   const Pitches& pitch) const;
  std::uint64_t selected_in(std::span<const std::uint64_t> chunk_start) const;
  bool is_at_edge(std::span<const std::uint64_t> chunk_start) const;
  bool is_unfiltered(const StoredChunk& stored, std::span<const std::uint64_t> chunk_start) const;
  bool try_read(const ChunkBlock& part, const Pitches& pitch, std::byte* out,
                DecodingRoom& room) const;
  void read_plain(const ChunkBlock& part, const StoredChunk& stored, const Pitches& pitch,
                  std::byte* out, DecodingRoom& room) const;
  void decode(const StoredChunk& stored, std::span<const std::uint64_t> chunk_start, std::byte* out,
              DecodingRoom& room) const;
  bool decode_ahead(const std::vector<ChunkBlock>& parts, DecodingRoom& room) const;
  void read_bytes(const StoredChunk& stored, Range bytes, std::byte* out,
                  std::span<const std::uint64_t> chunk_start) const;
  void copy(const ChunkBlock& part, const std::byte* chunk, const Pitches& pitch,
            std::byte* out) const;
  void fill(const ChunkBlock& part, const Pitches& pitch, std::byte* out) const;
  std::uint64_t step_of(std::uint64_t number) const;
  void note_step(std::uint64_t step) const;
  [[noreturn]] void fail(std::span<const std::uint64_t> chunk_start,
                         const std::string& reason) const;

  ChunkLayout layout_;
  ChunkCoding coding_;
  Extents grid_;          // chunks along each dimension
  Pitches pitch_, step_;  // inside a chunk: of elements, of selected elements
  std::uint64_t chunk_bytes_, chunk_elements_;
  std::unique_ptr<const ChunkStore> store_;
  Range prepared_{0, 0};
  mutable DecodedChunks decoded_;
  mutable std::mutex mutex_;         // guards the next member
  mutable std::uint64_t front_ = 0;  // the last step that a read has reached
};

}  // namespace shardstream::io
