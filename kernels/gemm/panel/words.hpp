// What readers and writers do with elements on the host while these pass: sums of words, so that a
// corrupted copy is seen, the sums that C is known by, and rounding to the elements of a panel. All
// are reentrant and run at the speed of memory.
#pragma once

#include <cstdint>

#include "kernels/data/element.hpp"
#include "kernels/gemm/precision.hpp"

namespace shardstream::gemm {

/// The sum mod 2^64 of the 8-byte words in memory, the last one filled up with zeros.
std::uint64_t word_sum(const void* data, std::uint64_t bytes);

/// Copies bytes to where they do not overlap; returns their word_sum().
std::uint64_t copy_words(const void* from, std::uint64_t bytes, void* to);

template <class Bits>
inline constexpr unsigned mixing_shift = sizeof(Bits) == 8 ? 29 : 15;

/// Of an element's bits as a whole number of 32 or 64: its upper ones also change lower ones. A sum
/// of the bits themselves hardly shows what changes the sign or the exponent of every element.
template <class Bits>
constexpr std::uint64_t mixed_bits(Bits bits) {
  return bits ^ (bits >> mixing_shift<Bits>);
}

/// What a writer keeps of `count` neighbouring elements of a row of C. Sums of whole numbers are
/// mod 2^64.
struct RowSums {
  std::uint64_t words = 0;   ///< word_sum() of the row in memory, padding included
  std::uint64_t bits = 0;    ///< of the elements' mixed_bits()
  std::uint64_t places = 0;  ///< of these times j for the elements j = 0, 1, ...
  double squares = 0;        ///< of the elements, in an order that depends on nothing but `count`

  /// Sum of mixed_bits() * (2 * index_j + 1), where element j's index in C is `first` + j * `step`:
  /// a step of 1 in a row, of C's columns where the elements also stand mirrored, in a column.
  std::uint64_t weighted(std::uint64_t first, std::uint64_t step = 1) const {
    return bits * (2 * first + 1) + 2 * step * places;
  }
};

/// Of `count` elements (f32, f64 or i32; others throw std::logic_error) at `row`, of any alignment,
/// which are followed by padding up to `padded` elements.
RowSums row_sums(ElementType type, const void* row, std::uint64_t count, std::uint64_t padded);

/// Whether the bytes of stored elements are those of a panel's.
bool stored_as_panel(ElementType from, Precision precision, bool on_host);

/// Whether readers make panel elements of stored ones: where these differ and do not grow, so that
/// the host link carries no more than it has to.
bool readers_round(ElementType from, Precision precision, bool on_host);

/// out[i] = panel element of in[i], as canonicalize_kernel() makes them: panel_element_bytes()
/// each. Both are aligned to their elements. In place (out == in) where elements do not grow, else
/// the two must not overlap. Returns word_sum() of what it wrote.
std::uint64_t round_elements(ElementType from, Precision precision, bool on_host, const void* in,
                             std::uint64_t count, void* out);

}  // namespace shardstream::gemm
