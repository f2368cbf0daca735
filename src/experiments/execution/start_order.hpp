// The order in which blocks or warps start.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

/// The median distance between the number of an item and its place in the order of their starts.
/// places[i] is the place of item i. 0 for an empty list.
inline std::size_t median_displacement(std::span<const unsigned> places) {
  if (places.empty()) return 0;
  std::vector<std::size_t> distances;
  for (std::size_t i = 0; i < places.size(); ++i) {
    distances.push_back(std::max<std::size_t>(i, places[i]) - std::min<std::size_t>(i, places[i]));
  }
  const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::ranges::nth_element(distances, middle);
  return *middle;
}

}  // namespace shardstream::experiments::execution
