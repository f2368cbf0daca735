// The levels of a memory, found from the steps of its latency.
#pragma once

#include <cstddef>
#include <vector>

namespace shardstream::experiments::memory {

/// Points [begin, end) of about the same time, two or more.
struct Level {
  std::size_t begin, end;
  bool operator==(const Level&) const = default;
};

/// The levels in `times`, those of growing working sets. Sets on the way from one level to the
/// next, alone among their neighbours, are in none.
std::vector<Level> levels_of(const std::vector<double>& times);

}  // namespace shardstream::experiments::memory
