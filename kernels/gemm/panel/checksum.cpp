#include "kernels/gemm/panel/checksum.hpp"

#include <bit>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "kernels/gemm/panel/checksum_loop.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::gemm {
namespace {

using detail::sum_all_words;
using detail::Words;

SHARDSTREAM_VECTOR_CLONES
std::uint64_t sum_of_words(const std::byte* data, std::uint64_t bytes) {
  return sum_all_words(data, bytes);
}

SHARDSTREAM_VECTOR_CLONES
std::uint64_t copy_and_sum(const std::byte* from, std::uint64_t bytes, std::byte* to) {
  Words sums[4] = {};
  std::uint64_t at = 0;
  for (; at + sizeof(sums) <= bytes; at += sizeof(sums)) {
    detail::fetch_ahead(from, at, sizeof(sums), bytes);
    detail::claim_ahead(to, at, sizeof(sums), bytes);
    for (unsigned i = 0; i < 4; ++i) {
      Words words;
      std::memcpy(&words, from + at + i * sizeof(words), sizeof(words));
      std::memcpy(to + at + i * sizeof(words), &words, sizeof(words));
      sums[i] += words;
    }
  }
  std::memcpy(to + at, from + at, bytes - at);
  const Words all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return all[0] + all[1] + all[2] + all[3] + sum_all_words(from + at, bytes - at);
}

// ---------------------------------------------------------------- rows of C

template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

using Eight [[gnu::vector_size(32)]] = std::uint32_t;
constexpr unsigned lanes = 8;
using Doubles [[gnu::vector_size(32)]] = double;
template <class T>
using Four [[gnu::vector_size(4 * sizeof(T))]] = T;

/// The sum of step * word over all steps, computed with additions only: `total` is the sum of the
/// words, `running` the sum of the totals after each of the `steps` steps.
constexpr std::uint64_t by_step(std::uint64_t total, std::uint64_t running, std::uint64_t steps) {
  return steps * total - running;
}

/// Replaces the elements in some words by their mixed_bits().
template <class T>
[[gnu::always_inline]] inline void mix(Words& words) {
  if constexpr (sizeof(T) == 8) {
    words ^= words >> mixing_shift<std::uint64_t>;
  } else {
    Eight halves;
    std::memcpy(&halves, &words, sizeof(halves));
    halves ^= halves >> mixing_shift<std::uint32_t>;
    std::memcpy(&words, &halves, sizeof(words));
  }
}

/// Adds the first `steps` groups of eight elements of a row to its sums.
template <class T>
[[gnu::always_inline]] inline void add_steps(const std::byte* row, std::uint64_t steps,
                                             RowChecksums& sums, double (&squares)[lanes]) {
  Doubles of_lanes[2] = {};
  // Sums of each word that a step loads; for 4-byte elements, those of its upper half separately.
  constexpr unsigned loads = sizeof(T) * lanes / sizeof(Words);
  Words as_stored = {}, total[loads] = {}, running[loads] = {}, upper = {}, upper_running = {};
  for (std::uint64_t step = 0; step < steps; ++step) {
    const std::byte* const here = row + step * lanes * sizeof(T);
    for (unsigned i = 0; i < loads; ++i) {
      Words words;
      std::memcpy(&words, here + i * sizeof(words), sizeof(words));
      as_stored += words;
      mix<T>(words);
      if constexpr (sizeof(T) == 4) {
        upper += words >> 32;
        upper_running += upper;
        words &= 0xffffffff;
      }
      total[i] += words;
      running[i] += total[i];
    }
    for (unsigned i = 0; i < 2; ++i) {
      Four<T> four;
      std::memcpy(&four, here + i * sizeof(four), sizeof(four));
      const Doubles x = __builtin_convertvector(four, Doubles);
      of_lanes[i] += x * x;
    }
  }
  std::memcpy(squares, of_lanes, sizeof(squares));
  for (unsigned w = 0; w < 4; ++w) sums.words += as_stored[w];
  for (unsigned i = 0; i < loads; ++i) {
    for (unsigned w = 0; w < 4; ++w) {
      const unsigned place = (i * 4 + w) * (8 / sizeof(T));
      sums.bits += total[i][w];
      sums.indexed_bits += lanes * by_step(total[i][w], running[i][w], steps) + place * total[i][w];
      if constexpr (sizeof(T) == 4) {
        sums.bits += upper[w];
        sums.indexed_bits +=
            lanes * by_step(upper[w], upper_running[w], steps) + (place + 1) * upper[w];
      }
    }
  }
}

/// Processes eight elements per step. Lane i mod 8 adds the square of element i, and then the
/// lanes' sums are added pair by pair. The vectors are explicit, since compilers do not vectorise
/// sums of doubles, whose order matters.
template <class T>
SHARDSTREAM_VECTOR_CLONES RowChecksums sums_of_row(const std::byte* row, std::uint64_t count) {
  RowChecksums sums;
  double squares[lanes] = {};
  const std::uint64_t steps = count / lanes;
  if (steps > 0) add_steps<T>(row, steps, sums, squares);
  for (std::uint64_t i = steps * lanes; i < count; ++i) {
    T element;
    std::memcpy(&element, row + i * sizeof(T), sizeof(T));
    const auto bits = std::bit_cast<Bits<T>>(element);
    sums.words += std::uint64_t{bits} << (sizeof(T) == 4 && i % 2 != 0 ? 32 : 0);
    sums.bits += mixed_bits(bits);
    sums.indexed_bits += mixed_bits(bits) * i;
    const auto x = static_cast<double>(element);
    squares[i % lanes] += x * x;
  }
  const auto pairs = [](const double* x) { return (x[0] + x[1]) + (x[2] + x[3]); };
  sums.squares = pairs(squares) + pairs(squares + 4);
  return sums;
}

RowChecksums sums_of_elements(ElementType type, const std::byte* row, std::uint64_t count) {
  switch (type) {
    case ElementType::f32:
      return sums_of_row<float>(row, count);
    case ElementType::f64:
      return sums_of_row<double>(row, count);
    case ElementType::i32:
      return sums_of_row<std::int32_t>(row, count);
    case ElementType::i64:
      return sums_of_row<std::int64_t>(row, count);
    default:
      throw std::logic_error("C cannot have this type");
  }
}

}  // namespace

std::uint64_t word_checksum(const void* data, std::uint64_t bytes) {
  return sum_of_words(static_cast<const std::byte*>(data), bytes);
}

std::uint64_t copy_with_checksum(const void* from, std::uint64_t bytes, void* to) {
  return copy_and_sum(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
}

RowChecksums row_checksums(ElementType type, const void* row, std::uint64_t count,
                           std::uint64_t padded) {
  const auto* const bytes = static_cast<const std::byte*>(row);
  const std::size_t element = size_of(type);
  RowChecksums sums = sums_of_elements(type, bytes, count);
  // The padding begins at a whole word or in the middle of one.
  std::uint64_t first = count * element;
  const std::uint64_t end = padded * element;
  if (first % 8 != 0 && first < end) {
    std::uint32_t upper;
    std::memcpy(&upper, bytes + first, sizeof(upper));
    sums.words += std::uint64_t{upper} << 32;
    first += sizeof(upper);
  }
  if (first < end) sums.words += word_checksum(bytes + first, end - first);
  return sums;
}

}  // namespace shardstream::gemm
