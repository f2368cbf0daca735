// Decodes one chunk in memory, in any number of threads at once. It knows the filters
// deflate (with libdeflate), lzf, shuffle and fletcher32, and gives the same bytes as HDF5's own
// filters and h5py's lzf.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "io/description/description.hpp"
#include "io/source/dataset/direct_file.hpp"

struct libdeflate_decompressor;

namespace shardstream::io {

/// Working memory of one decoding thread. It grows as needed and never shrinks.
class DecodingRoom {
 public:
  DecodingRoom();
  ~DecodingRoom();
  DecodingRoom(const DecodingRoom&) = delete;
  DecodingRoom& operator=(const DecodingRoom&) = delete;

  /// Returns `bytes` bytes; they stay valid until the next call with the same `place`, 0 to 3.
  std::byte* bytes(std::size_t place, std::uint64_t bytes);
  libdeflate_decompressor* decompressor() const { return decompressor_; }

 private:
  struct Buffer {
    AlignedBytes data;
    std::uint64_t bytes;
  };

  libdeflate_decompressor* decompressor_;
  std::array<std::optional<Buffer>, 4> buffers_;
};

/// The filters of a chunked data set, in the order in which they were applied.
class ChunkFilters {
 public:
  /// Returns nothing if one of the filters is Filter::Kind::other, or if two of them compress.
  static std::optional<ChunkFilters> of(std::span<const Filter> filters);

  /// Whether a chunk with this mask of skipped filters (bit i: filter i) is stored unfiltered.
  bool skips_all(std::uint32_t mask) const;

  /// Writes the `bytes` bytes of a chunk to `out`. `stored` has the chunk as it is in the file, and
  /// must not be in places 0 and 1 of `room`. Throws Error if the chunk is damaged; the message has
  /// only the reason.
  void decode(std::span<const std::byte> stored, std::uint32_t mask, std::byte* out,
              std::uint64_t bytes, DecodingRoom& room) const;

 private:
  std::vector<Filter> filters_;
};

/// The checksum of HDF5's filter fletcher32.
std::uint32_t fletcher32(std::span<const std::byte> data);

/// Reverses HDF5's filter shuffle for elements of `element` bytes. Bytes after the last whole
/// element keep their positions.
void unshuffle(std::span<const std::byte> in, std::uint64_t element, std::byte* out);

}  // namespace shardstream::io
