// Finds the levels of the memory hierarchy from the steps of the latency.
#pragma once

#include <cstddef>
#include <vector>

namespace shardstream::experiments::memory {

/// Two or more consecutive points [begin, end) with about the same time.
struct Level {
  std::size_t begin, end;
  bool operator==(const Level&) const = default;
};

/// The levels in `times`, the latencies of growing working sets. A set between two levels, with a
/// time unlike those of its neighbours, belongs to none.
std::vector<Level> levels_of(const std::vector<double>& times);

}  // namespace shardstream::experiments::memory
