// The order in which blocks or warps start.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardstream::experiments::execution {

/// A simple model: the wave in which a block starts if all blocks take equally long, `places` of
/// them run at the same time, and they start in order.
constexpr std::uint64_t wave_of(std::uint64_t block, std::uint64_t places) {
  return block / places;
}

/// Waves of `blocks` blocks.
constexpr std::uint64_t waves_of(std::uint64_t blocks, std::uint64_t places) {
  return (blocks + places - 1) / places;
}

/// The number of items that started before an item with a smaller number. places[i] is the place of
/// item i in the order of their starts.
inline std::size_t early_starts(std::span<const unsigned> places) {
  std::size_t count = 0;
  unsigned latest = 0;  // of the items before
  for (const unsigned place : places) {
    count += place < latest ? 1 : 0;
    latest = std::max(latest, place);
  }
  return count;
}

}  // namespace shardstream::experiments::execution
