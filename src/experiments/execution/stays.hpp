// When and where the warps of a kernel ran: how many of them, and of its blocks, a multiprocessor
// holds at the same time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "experiments/execution/spans.hpp"

namespace shardstream::experiments::execution {

/// The time that a warp or a block spent on a multiprocessor, in nanoseconds of the GPU's timer.
struct Stay {
  std::uint64_t begin, end, multiprocessor;
};

/// The stays on each multiprocessor, by its number.
inline std::map<std::uint64_t, std::vector<Stay>> by_multiprocessor(std::span<const Stay> stays) {
  std::map<std::uint64_t, std::vector<Stay>> all;
  for (const Stay& stay : stays) all[stay.multiprocessor].push_back(stay);
  return all;
}

/// The stays of blocks from those of their warps: those of block b are the elements from b *
/// `warps_of_block` on. A block stays from the begin of its first warp to the end of its last one.
inline std::vector<Stay> of_blocks(std::span<const Stay> warps, unsigned warps_of_block) {
  std::vector<Stay> blocks;
  for (std::size_t i = 0; i < warps.size(); i += warps_of_block) {
    const auto own = warps.subspan(i, warps_of_block);
    blocks.push_back({std::ranges::min(own, {}, &Stay::begin).begin,
                      std::ranges::max(own, {}, &Stay::end).end, own[0].multiprocessor});
  }
  return blocks;
}

/// The same for the time in which all warps of a block are there. A block whose first warp ends
/// before its last one begins has none.
inline std::vector<Stay> of_whole_blocks(std::span<const Stay> warps, unsigned warps_of_block) {
  std::vector<Stay> blocks;
  for (std::size_t i = 0; i < warps.size(); i += warps_of_block) {
    const auto own = warps.subspan(i, warps_of_block);
    const std::uint64_t begin = std::ranges::max(own, {}, &Stay::begin).begin;
    const std::uint64_t end = std::ranges::min(own, {}, &Stay::end).end;
    if (begin < end) blocks.push_back({begin, end, own[0].multiprocessor});
  }
  return blocks;
}

/// The largest number of stays on any multiprocessor at the same time. One that begins at the time
/// at which another one ends did not meet it.
inline unsigned max_at_once(std::span<const Stay> stays) {
  unsigned max = 0;
  for (const auto& [number, own] : by_multiprocessor(stays)) {
    std::vector<Span> spans;
    for (const Stay& stay : own) spans.push_back({stay.begin, stay.end});
    max = std::max(max, largest_overlap(spans));
  }
  return max;
}

/// The average number of stays on a multiprocessor between its first and its last one, over all
/// multiprocessors. NaN if the timer did not advance.
inline double mean_at_once(std::span<const Stay> stays) {
  double occupied = 0, total = 0;
  for (const auto& [number, own] : by_multiprocessor(stays)) {
    const auto ns = [](std::uint64_t time) { return static_cast<double>(time); };
    const std::uint64_t first = std::ranges::min(own, {}, &Stay::begin).begin;
    total += ns(std::ranges::max(own, {}, &Stay::end).end - first);
    for (const Stay& stay : own) occupied += ns(stay.end - stay.begin);
  }
  return total > 0 ? occupied / total : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace shardstream::experiments::execution
