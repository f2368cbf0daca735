// Test data of experiments: numbers that depend only on their index. Hosts and GPUs compute the
// same ones.
#pragma once

#include <cstdint>

namespace shardstream::experiments {

/// The number at index `i`, a multiple of 2^-24 in [0, 1): one round of SplitMix64 (Steele, Lea and
/// Flood, "Fast splittable pseudorandom number generators", 2014).
constexpr float unit_number(std::uint64_t i) {
  std::uint64_t h = (i + 1) * 0x9e3779b97f4a7c15U;
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9U;
  return static_cast<float>((h ^ (h >> 31)) >> 40) * 0x1p-24F;
}

}  // namespace shardstream::experiments
