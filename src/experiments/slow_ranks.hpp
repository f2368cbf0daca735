// Finds ranks that are slower than the others.
#pragma once

#include <cstddef>
#include <vector>

#include "core/table.hpp"
#include "experiments/experiment.hpp"

namespace shardstream::experiments {

struct SlowRank {
  std::size_t rank;
  double share;       ///< its speed over that of the others: the median of all cases
  std::size_t cases;  ///< number of cases
};

/// Compares each row of a rank with the median of the same row of the other ranks. A rank is slow
/// if at least half of its rows are slower than that, by more than their interval and by at least
/// 3 %. `gathered` has the rows of rank 0, then those of rank 1, and so on (ranks::gather). If
/// ranks have different numbers of rows, or the figure is not rated, there is nothing to compare.
std::vector<SlowRank> slow_ranks(const Table& gathered, const Figure& figure, std::size_t ranks);

}  // namespace shardstream::experiments
