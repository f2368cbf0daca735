// How a thread adds several integers at a time. Their sums and extremes, and the squares of bytes,
// do not depend on the order, so that those of a flight are found first, with few instructions.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cells/cells.hpp"
#include "kernels/cells/moments.hpp"

namespace shardstream::cells::cuda {

/// The sums and extremes of the bytes of some words.
template <class T>
struct ByteSums {
  static constexpr bool is_signed = std::is_signed_v<T>;
  using Word = std::conditional_t<is_signed, int, unsigned>;

  Word sum = 0, squares = 0;
  unsigned low = 0x7fff7fff, high = 0x80008000;  // two of 16 bits each

  template <class Q>
  __device__ void add(Q quantities, Word word) {
    sum = __dp4a(word, static_cast<Word>(0x01010101), sum);
    if (quantities.has(Quantity::squares)) squares = __dp4a(word, word, squares);
    if (!quantities.has(Quantity::extremes)) return;
    // Bytes become numbers of 16 bits, with their sign.
    const auto bytes = static_cast<unsigned>(word);
    const unsigned first = __byte_perm(bytes, 0, is_signed ? 0x9180 : 0x4140);
    const unsigned last = __byte_perm(bytes, 0, is_signed ? 0xb3a2 : 0x4342);
    low = __vimin3_s16x2(first, last, low);
    high = __vimax3_s16x2(first, last, high);
  }
  __device__ T min() const { return static_cast<T>(::min(half(low, 0), half(low, 1))); }
  __device__ T max() const { return static_cast<T>(::max(half(high, 0), half(high, 1))); }

 private:
  __device__ static int half(unsigned word, unsigned number) {
    return static_cast<std::int16_t>(word >> (16 * number));
  }
};

/// Adds values that have been counted, if the quantities need neither their numbers nor weights.
template <class T, class Q, unsigned N>
__device__ void add_flight(Q quantities, Accumulator<T>& sums, const T (&x)[N]) {
  T low = x[0], high = x[0];
  if constexpr (sizeof(T) == 1) {
    static_assert(N % 4 == 0);
    ByteSums<T> flight;
#pragma unroll
    for (unsigned i = 0; i < N; i += 4) {
      typename ByteSums<T>::Word word;
      std::memcpy(&word, x + i, sizeof word);
      flight.add(quantities, word);
    }
    sums.sum += flight.sum;
    if (quantities.has(Quantity::squares)) {
      // All of these are integers that double holds exactly.
      const int shift = static_cast<int>(sums.shift), sum = static_cast<int>(flight.sum);
      constexpr int n = N;
      sums.s1 += sum - n * shift;
      sums.s2 += static_cast<int>(flight.squares) + shift * (n * shift - 2 * sum);
    }
    if (quantities.has(Quantity::extremes)) low = flight.min(), high = flight.max();
  } else {
    using FlightSum = std::conditional_t<sizeof(T) == 8, Sum<T>, std::int64_t>;
    FlightSum sum = 0;
#pragma unroll
    for (unsigned i = 0; i < N; ++i) {
      sum += x[i];
      low = x[i] < low ? x[i] : low;
      high = high < x[i] ? x[i] : high;
      if (quantities.has(Quantity::squares)) AddToSquares<false, false>::add(sums, x[i], 0);
    }
    sums.sum += sum;
  }
  if (!quantities.has(Quantity::extremes)) return;
  sums.range.min = low < sums.range.min ? low : sums.range.min;
  sums.range.max = sums.range.max < high ? high : sums.range.max;
}

}  // namespace shardstream::cells::cuda
