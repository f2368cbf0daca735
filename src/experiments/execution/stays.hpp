// When and where the blocks of a kernel ran: how many of them a multiprocessor holds at the same
// time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "experiments/execution/spans.hpp"

namespace shardstream::experiments::execution {

/// The time that one block spent on a multiprocessor, in nanoseconds of the GPU's timer.
struct Stay {
  std::uint64_t begin, end, multiprocessor;
};

/// The stays on each multiprocessor, by its number.
inline std::map<std::uint64_t, std::vector<Stay>> by_multiprocessor(std::span<const Stay> stays) {
  std::map<std::uint64_t, std::vector<Stay>> all;
  for (const Stay& stay : stays) all[stay.multiprocessor].push_back(stay);
  return all;
}

/// The largest number of blocks that any multiprocessor held at the same time. A block that begins
/// at the time at which another one ends did not meet it.
inline unsigned max_at_once(std::span<const Stay> stays) {
  unsigned max = 0;
  for (const auto& [number, own] : by_multiprocessor(stays)) {
    std::vector<Span> spans;
    for (const Stay& stay : own) spans.push_back({stay.begin, stay.end});
    max = std::max(max, largest_overlap(spans));
  }
  return max;
}

/// The average number of blocks on a multiprocessor between its first and its last block, over all
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
