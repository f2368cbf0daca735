#include "kernels/gemm/panel/words.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "kernels/gemm/panel/rounding.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::gemm {
namespace {

using Words [[gnu::vector_size(32)]] = std::uint64_t;

[[gnu::always_inline]] inline std::uint64_t sum_all_words(const std::byte* data,
                                                          std::uint64_t bytes) {
  constexpr unsigned flight = 4;  // vectors added at a time
  Words sums[flight] = {};
  std::uint64_t at = 0;
  for (; at + sizeof(sums) <= bytes; at += sizeof(sums)) {
    for (unsigned i = 0; i < flight; ++i) {
      Words words;
      std::memcpy(&words, data + at + i * sizeof(words), sizeof(words));
      sums[i] += words;
    }
  }
  std::uint64_t sum = 0;
  for (const Words& four : sums) sum += four[0] + four[1] + four[2] + four[3];
  for (; at < bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, std::min<std::uint64_t>(8, bytes - at));
    sum += word;
  }
  return sum;
}

SHARDSTREAM_VECTOR_CLONES
std::uint64_t sum_of_words(const std::byte* data, std::uint64_t bytes) {
  return sum_all_words(data, bytes);
}

/// Prefetches 4 KiB ahead, like fetch_ahead().
SHARDSTREAM_VECTOR_CLONES
std::uint64_t copy_and_sum(const std::byte* from, std::uint64_t bytes, std::byte* to) {
  constexpr std::uint64_t ahead = 4096, line = 64;
  Words sums[4] = {};
  std::uint64_t at = 0;
  for (; at + sizeof(sums) <= bytes; at += sizeof(sums)) {
    for (std::uint64_t next = at + ahead; next < std::min(at + ahead + sizeof(sums), bytes);
         next += line) {
      __builtin_prefetch(from + next);
    }
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

/// Processes eight elements per step. Lane i mod 8 adds the square of element i, and then the
/// lanes' sums are added pair by pair. The vectors are explicit, since compilers do not vectorise
/// sums of doubles, whose order matters.
template <class T>
SHARDSTREAM_VECTOR_CLONES RowSums sums_of_row(const std::byte* row, std::uint64_t count) {
  RowSums sums;
  Doubles squares[2] = {};
  // Sums of each word that a step loads; for 4-byte elements, those of its upper half separately.
  constexpr unsigned loads = sizeof(T) * lanes / sizeof(Words);
  Words as_stored = {}, total[loads] = {}, running[loads] = {}, upper = {}, upper_running = {};
  const std::uint64_t steps = count / lanes;
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
      squares[i] += x * x;
    }
  }
  for (unsigned w = 0; w < 4; ++w) sums.words += as_stored[w];
  for (unsigned i = 0; i < loads; ++i) {
    for (unsigned w = 0; w < 4; ++w) {
      const unsigned place = (i * 4 + w) * (8 / sizeof(T));
      sums.bits += total[i][w];
      sums.places += lanes * by_step(total[i][w], running[i][w], steps) + place * total[i][w];
      if constexpr (sizeof(T) == 4) {
        sums.bits += upper[w];
        sums.places += lanes * by_step(upper[w], upper_running[w], steps) + (place + 1) * upper[w];
      }
    }
  }
  for (std::uint64_t i = steps * lanes; i < count; ++i) {
    T element;
    std::memcpy(&element, row + i * sizeof(T), sizeof(T));
    const auto bits = std::bit_cast<Bits<T>>(element);
    sums.words += std::uint64_t{bits} << (sizeof(T) == 4 && i % 2 != 0 ? 32 : 0);
    sums.bits += mixed_bits(bits);
    sums.places += mixed_bits(bits) * i;
    const auto x = static_cast<double>(element);
    squares[i % lanes / 4][i % 4] += x * x;
  }
  const auto pairs = [](const Doubles& x) { return (x[0] + x[1]) + (x[2] + x[3]); };
  sums.squares = pairs(squares[0]) + pairs(squares[1]);
  return sums;
}

RowSums sums_of_elements(ElementType type, const std::byte* row, std::uint64_t count) {
  switch (type) {
    case ElementType::f32:
      return sums_of_row<float>(row, count);
    case ElementType::f64:
      return sums_of_row<double>(row, count);
    case ElementType::i32:
      return sums_of_row<std::int32_t>(row, count);
    default:
      throw std::logic_error("C cannot have this type");
  }
}

// ---------------------------------------------------------------- elements of panels

/// The bits of the half nearest to x, ties to even: detail::to_fp16() and the encoding in one step.
/// NaN has the bits that GPUs produce.
constexpr std::uint16_t half_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t size = bits & 0x7fffffffu;
  const std::uint32_t normal = (size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13;
  // The last bit of a float from 0.5 to 1 is 2^-24, a half's smallest number.
  const auto subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5f);
  const std::uint32_t finite =
      detail::select(size < 0x38800000u, subnormal - 0x3f000000u, normal);  // 2^-14
  const std::uint32_t number = std::min(finite, 0x7c00u);
  return static_cast<std::uint16_t>(detail::select(size > 0x7f800000u, 0x7fffu, number) |
                                    (bits >> 16 & 0x8000u));
}

/// Converts x to an element of the panel.
template <Precision P, bool OnHost, class T>
[[gnu::always_inline]] constexpr auto element_of(T x) {
  if constexpr (P == Precision::bf16 && !OnHost) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded<P>(x)) >> 16);
  } else if constexpr (P == Precision::fp16 && !OnHost) {
    return half_bits(detail::odd_float(x));
  } else if constexpr (P == Precision::int8 && !OnHost) {
    return x;
  } else {
    return rounded<P>(x);
  }
}

/// Prefetches the elements 4 KiB after from[first] to from[first + some], since the hardware's
/// prefetches end with each page and leave a busy core waiting.
template <class T>
[[gnu::always_inline]] inline void fetch_ahead(const T* from, std::uint64_t first,
                                               std::uint64_t some, std::uint64_t count) {
  constexpr std::uint64_t ahead = 4096 / sizeof(T), line = 64 / sizeof(T);
  const std::uint64_t end = std::min(count, first + ahead + some);
  for (std::uint64_t i = first + ahead; i < end; i += line) __builtin_prefetch(from + i);
}

template <Precision P, bool OnHost, class T>
[[gnu::always_inline]] inline std::uint64_t round_all(const T* from, std::uint64_t count,
                                                      void* to) {
  using Out = decltype(element_of<P, OnHost>(T{}));
  // Uses a buffer in the first-level cache, since a compiler does not vectorise a conversion that
  // may overwrite elements that it has not read yet.
  constexpr std::uint64_t block = 128;
  Out buffer[block];
  std::uint64_t sum = 0;
  for (std::uint64_t first = 0; first < count; first += block) {
    const std::uint64_t some = std::min(block, count - first);
    fetch_ahead(from, first, some, count);
    for (std::uint64_t i = 0; i < some; ++i) buffer[i] = element_of<P, OnHost>(from[first + i]);
    const auto* const bytes = reinterpret_cast<const std::byte*>(buffer);
    sum += sum_all_words(bytes, some * sizeof(Out));
    std::memcpy(static_cast<Out*>(to) + first, buffer, some * sizeof(Out));
  }
  return sum;
}

template <class T>
SHARDSTREAM_VECTOR_CLONES std::uint64_t round_from(Precision precision, Backend backend,
                                                   const T* from, std::uint64_t count, void* to) {
  switch (precision) {  // not with_precision(), which would not be inlined into the vector clones
    case Precision::fp64:
      return round_all<Precision::fp64, true>(from, count, to);
    case Precision::fp32:
      return round_all<Precision::fp32, true>(from, count, to);
    case Precision::tf32:
      return round_all<Precision::tf32, true>(from, count, to);
    case Precision::bf16:
      return backend == Backend::host ? round_all<Precision::bf16, true>(from, count, to)
                                      : round_all<Precision::bf16, false>(from, count, to);
    case Precision::fp16:
      return backend == Backend::host ? round_all<Precision::fp16, true>(from, count, to)
                                      : round_all<Precision::fp16, false>(from, count, to);
    case Precision::int8:
      if constexpr (can_round<Precision::int8, T>) {
        return backend == Backend::host ? round_all<Precision::int8, true>(from, count, to)
                                        : round_all<Precision::int8, false>(from, count, to);
      }
      break;  // round_elements() has rejected it
    case Precision::fp32x3:
      return round_all<Precision::fp32x3, true>(from, count, to);
  }
  return 0;
}

}  // namespace

std::uint64_t word_checksum(const void* data, std::uint64_t bytes) {
  return sum_of_words(static_cast<const std::byte*>(data), bytes);
}

std::uint64_t copy_with_checksum(const void* from, std::uint64_t bytes, void* to) {
  return copy_and_sum(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
}

RowSums row_sums(ElementType type, const void* row, std::uint64_t count, std::uint64_t padded) {
  const auto* const bytes = static_cast<const std::byte*>(row);
  const std::size_t element = size_of(type);
  RowSums sums = sums_of_elements(type, bytes, count);
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

bool stored_as_panel(ElementType from, Precision precision, Backend backend) {
  const bool floats = precision == Precision::fp32 || precision == Precision::fp32x3;
  return (precision == Precision::fp64 && from == ElementType::f64) ||
         (floats && from == ElementType::f32) ||
         (precision == Precision::int8 && from == ElementType::i8 && backend != Backend::host);
}

bool readers_round(ElementType from, Precision precision, Backend backend) {
  return !stored_as_panel(from, precision, backend) &&
         panel_element_bytes(precision, backend) <= size_of(from);
}

std::uint64_t round_elements(ElementType from, Precision precision, Backend backend, const void* in,
                             std::uint64_t count, void* out) {
  if (!takes(precision, from)) throw std::logic_error("an int8 panel can only be made from i8");
  return with_element_type(from, [&](auto tag) {
    return round_from(precision, backend, static_cast<const typename decltype(tag)::type*>(in),
                      count, out);
  });
}

}  // namespace shardstream::gemm
