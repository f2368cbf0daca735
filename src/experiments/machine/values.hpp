// The elements to which an expression is applied, and the check of its values. Host arithmetic.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "experiments/instructions/ulp.hpp"
#include "experiments/machine/expression.hpp"
#include "experiments/numbers.hpp"

namespace shardstream::experiments::machine {

/// The elements: between -4 and 4, and random, so that each warp has different ones.
inline std::vector<float> elements(std::uint64_t count) {
  std::vector<float> x(count);
  for (std::uint64_t i = 0; i < count; ++i) x[i] = 8 * unit_number(i) - 4;
  return x;
}

/// FNV-1a (Fowler, Noll, Vo) of the bits of the numbers, a word at a time.
inline std::uint64_t hash_of(const std::vector<float>& numbers) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const float number : numbers) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(number)) * 0x100000001b3U;
  }
  return hash;
}

/// The largest error of the first 2^20 values, in units in the last place (ulp).
inline double largest_error(const std::vector<float>& x, const std::vector<float>& values,
                            const KnownFunction& known) {
  const std::size_t count = std::min<std::size_t>(x.size(), std::size_t{1} << 20);
  double largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    largest = std::max(largest, instructions::error_in_ulp(values[i], known.exact(x[i])));
  }
  return largest;
}

}  // namespace shardstream::experiments::machine
