// A walk through all numbers below a power of two, in an order that looks random.
#pragma once

#include <cstdint>

namespace shardstream::experiments::memory {

/// A walk that visits every number below `count`, a power of two, once before it returns to the
/// first one: the numbers of a linear congruential generator with full period (Hull and Dobell,
/// "Random number generators", 1962). place() mixes them by a bijection, because their low bits are
/// regular.
struct Walk {
  std::uint64_t count;

  constexpr std::uint64_t next(std::uint64_t x) const {
    return (x * 6364136223846793005U + 1442695040888963407U) & (count - 1);
  }
  constexpr std::uint64_t place(std::uint64_t x) const {
    unsigned bits = 0;
    while ((std::uint64_t{1} << bits) < count) ++bits;
    for (int round = 0; round < 2; ++round) {
      x ^= x >> (bits / 2 + 1);
      x = (x * 0x9e3779b97f4a7c15U) & (count - 1);
    }
    return x ^ (x >> (bits / 2 + 1));
  }
};

/// The place that the walk has reached after `steps` steps.
constexpr std::uint64_t end_of(const Walk& walk, std::uint64_t steps) {
  std::uint64_t x = 0;
  for (std::uint64_t i = 0; i < steps % walk.count; ++i) x = walk.next(x);
  return walk.place(x);
}

}  // namespace shardstream::experiments::memory
