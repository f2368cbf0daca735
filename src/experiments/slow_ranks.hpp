// Which rank is slower than its siblings.
#pragma once

#include <cstddef>
#include <vector>

#include "core/table.hpp"
#include "experiments/experiment.hpp"

namespace shardstream::experiments {

struct SlowRank {
  std::size_t rank;
  double share;  ///< of the others' rate, or speed for times: the median of all cases
  std::size_t cases;
};

/// `gathered` has the rows of all ranks, one rank's after the other's, as many of each. Each row is
/// compared with the median of the other ranks' same row, the slower one of two medians. A rank is
/// slow if it is so beyond its interval, and by 3 % or more, in at least half of the rows.
std::vector<SlowRank> slow_ranks(const Table& gathered, const Figure& figure, std::size_t ranks);

}  // namespace shardstream::experiments
