// Arithmetic of the experiment async-copy: the sums that its computation must give.
#pragma once

#include <cstdint>

namespace shardstream::experiments::memory {

/// The sum of the words first, first + step, ... (`count` of them), each of which was replaced
/// `times` times by word * factor + summand, modulo 2^32.
constexpr unsigned sum_of_replaced(std::uint64_t first, std::uint64_t step, std::uint64_t count,
                                   unsigned times, unsigned factor, unsigned summand) {
  // After all replacements, a word x is x * scale + shift.
  unsigned scale = 1, shift = 0;
  for (unsigned i = 0; i < times; ++i) {
    scale *= factor;
    shift = shift * factor + summand;
  }
  const std::uint64_t pairs = count % 2 == 0 ? count / 2 * (count - 1) : (count - 1) / 2 * count;
  const auto sum = static_cast<unsigned>(first * count + step * (count > 0 ? pairs : 0));
  return sum * scale + static_cast<unsigned>(count) * shift;
}

}  // namespace shardstream::experiments::memory
