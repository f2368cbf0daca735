// Checksums of data in host memory, at the speed of memory and thread-safe. A word checksum reveals
// a corrupted copy: readers and writers compute it on the host, word_checksum_kernel() on the
// device. The checksums of C's rows add up to the checksum that identifies C.
#pragma once

#include <cstdint>

#include "types/element.hpp"

namespace shardstream::gemm {

/// The sum mod 2^64 of the 8-byte words at `data`, which may have any alignment. If the last word
/// is not complete, zeros complete it.
std::uint64_t word_checksum(const void* data, std::uint64_t bytes);

/// Copies bytes and returns their word_checksum(). `from` and `to` must not overlap.
std::uint64_t copy_with_checksum(const void* from, std::uint64_t bytes, void* to);

template <class Bits>
inline constexpr unsigned mixing_shift = sizeof(Bits) == 8 ? 29 : 15;

/// Mixes the bits of an element, given as an unsigned integer of 32 or 64 bits, so that upper bits
/// also change lower ones. A sum of unmixed bits would hardly reveal a change of the sign or the
/// exponent of every element.
template <class Bits>
constexpr std::uint64_t mixed_bits(Bits bits) {
  return bits ^ (bits >> mixing_shift<Bits>);
}

/// The sums of `count` adjacent elements of a row of C. Integer sums are mod 2^64.
struct RowChecksums {
  std::uint64_t words = 0;         ///< word_checksum() of the row in memory, padding included
  std::uint64_t bits = 0;          ///< sum of the elements' mixed_bits()
  std::uint64_t indexed_bits = 0;  ///< sum of j * mixed_bits() over the elements j = 0, 1, ...
  double squares = 0;              ///< sum of squares, in an order that depends only on `count`

  /// The contribution of these elements to the checksum of C. Each element of C with index i adds
  /// (2 i + 1) * mixed_bits() to this checksum. Element j of the row has the index first + j *
  /// step. `step` is 1 for a row of C. For the mirrored elements, which are a column of C, it is
  /// the number of C's columns.
  std::uint64_t matrix_checksum(std::uint64_t first, std::uint64_t step = 1) const {
    return bits * (2 * first + 1) + 2 * step * indexed_bits;
  }
};

/// The sums of `count` elements at `row`, which are followed by padding up to `padded` elements.
/// `row` may have any alignment. `type` is f32, f64, i32 or i64; others throw std::logic_error.
RowChecksums row_checksums(ElementType type, const void* row, std::uint64_t count,
                           std::uint64_t padded);

}  // namespace shardstream::gemm
