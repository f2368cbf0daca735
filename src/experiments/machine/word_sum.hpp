// The data of experiments whose kernels or threads add up all that they read.
#pragma once

#include <cstdint>

namespace shardstream::experiments::machine {

/// The sum of first, first + 1, ..., first + count - 1 modulo 2^64.
constexpr std::uint64_t sum_of_sequence(std::uint64_t first, std::uint64_t count) {
  const std::uint64_t pairs = count % 2 == 0 ? count / 2 * (count - 1) : (count - 1) / 2 * count;
  return pairs + count * first;
}

}  // namespace shardstream::experiments::machine
