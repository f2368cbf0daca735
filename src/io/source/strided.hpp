// Copies blocks between arrays with different pitches, and reads them from row-major arrays in
// files with few reads. All pitches are in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "io/source/element_order.hpp"

namespace shardstream::io {

/// The positions of a block's elements in an array: element (i, j, ...) is i * pitch[0] + j *
/// pitch[1] + ... bytes after the first one. Pitches may have any order.
using Pitches = Extents;

/// The pitches of a dense row-major block.
Pitches dense_pitches(const Extents& extent, std::uint64_t element);
/// Whether the block is dense and row-major.
bool is_dense(const Extents& extent, const Pitches& pitch, std::uint64_t element);
/// The offset of the element at `index`, in bytes.
std::uint64_t offset_of(std::span<const std::uint64_t> index, const Pitches& pitch);

/// Copies a block of elements of `element` bytes. The arrays must not overlap.
void copy_block(const Extents& extent, std::uint64_t element, const std::byte* from,
                const Pitches& from_pitch, std::byte* to, const Pitches& to_pitch);

/// Reads `bytes` bytes, `offset` bytes after the first element of a block.
using ReadAt = std::function<void(std::uint64_t offset, std::uint64_t bytes, std::byte* to)>;
/// Returns room for `bytes` bytes, valid until the next call.
using Memory = std::function<std::byte*(std::uint64_t bytes)>;

/// When elements with gaps between them are read together. Bytes.
struct Gathering {
  std::uint64_t max_gap;    ///< a read costs as much time as this number of bytes
  std::uint64_t max_bytes;  ///< of a read with gaps
};
/// For reads through the page cache.
inline constexpr Gathering cached_gathering{std::uint64_t{4} << 10, std::uint64_t{256} << 10};
/// For reads past the page cache, each of which waits for the device.
inline constexpr Gathering direct_gathering{std::uint64_t{128} << 10, std::uint64_t{4} << 20};

/// How a block is read from a file.
struct BlockReader {
  ReadAt read;
  Memory memory;  ///< for elements that are read together
  Gathering gathering = cached_gathering;
};

/// Reads a block of a row-major array in a file: the pitches in the file descend. Elements with
/// short gaps between them are read together.
void read_block(const Extents& extent, std::uint64_t element, const Pitches& in_file, std::byte* to,
                const Pitches& to_pitch, const BlockReader& reader);

}  // namespace shardstream::io
