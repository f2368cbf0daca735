// Functions that readers and writers apply to elements in host memory: checksums that reveal
// corrupted copies, the sums that identify C, and rounding to the elements of a panel. All are
// thread-safe and run at the speed of memory.
#pragma once

#include <cstdint>

#include "kernels/data/element.hpp"
#include "kernels/gemm/precision.hpp"

namespace shardstream::gemm {

/// The sum mod 2^64 of the 8-byte words at `data`, which may have any alignment. The last word is
/// filled up with zeros.
std::uint64_t word_checksum(const void* data, std::uint64_t bytes);

/// Copies bytes and returns their word_checksum(). `from` and `to` must not overlap.
std::uint64_t copy_with_checksum(const void* from, std::uint64_t bytes, void* to);

template <class Bits>
inline constexpr unsigned mixing_shift = sizeof(Bits) == 8 ? 29 : 15;

/// The bits of an element, as an unsigned integer of 32 or 64 bits, mixed so that the upper bits
/// also change lower ones. A sum of unmixed bits would hardly reveal a change of the sign or the
/// exponent of every element.
template <class Bits>
constexpr std::uint64_t mixed_bits(Bits bits) {
  return bits ^ (bits >> mixing_shift<Bits>);
}

/// The sums that a writer keeps of `count` neighbouring elements of a row of C. Integer sums are
/// mod 2^64.
struct RowSums {
  std::uint64_t words = 0;   ///< word_checksum() of the row in memory, padding included
  std::uint64_t bits = 0;    ///< sum of the elements' mixed_bits()
  std::uint64_t places = 0;  ///< sum of j * mixed_bits() over the elements j = 0, 1, ...
  double squares = 0;        ///< sum of squares, in an order that depends only on `count`

  /// The checksum of these elements in C: the sum of mixed_bits() * (2 * index_j + 1), where the
  /// index of element j in C is `first` + j * `step`. The step is 1 for a row of C, and the number
  /// of C's columns for the mirrored elements in a column.
  std::uint64_t weighted(std::uint64_t first, std::uint64_t step = 1) const {
    return bits * (2 * first + 1) + 2 * step * places;
  }
};

/// The sums of `count` elements at `row`, which are followed by padding up to `padded` elements.
/// `row` may have any alignment. `type` is f32, f64 or i32; others throw std::logic_error.
RowSums row_sums(ElementType type, const void* row, std::uint64_t count, std::uint64_t padded);

/// Whether stored elements of type `from` have the same bytes as those of a panel.
bool stored_as_panel(ElementType from, Precision precision, Backend backend);

/// Whether readers convert stored elements to panel elements: if the two differ and panel elements
/// are not larger, so that no unnecessary bytes are uploaded.
bool readers_round(ElementType from, Precision precision, Backend backend);

/// Sets out[i] to the panel element of in[i], with the same bits as canonicalize_kernel(). An
/// element has panel_element_bytes() bytes. `in` and `out` must be aligned to their elements. They
/// may be the same if panel elements are not larger; otherwise they must not overlap. Returns the
/// word_checksum() of the result. Throws std::logic_error unless takes(precision, from).
std::uint64_t round_elements(ElementType from, Precision precision, Backend backend, const void* in,
                             std::uint64_t count, void* out);

}  // namespace shardstream::gemm
