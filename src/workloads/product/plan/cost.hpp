// How long a product would take, cut in one way or another. Behind gemm_plan.hpp, which says how it
// is predicted.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/product/plan/shape.hpp"

namespace shardstream::workloads {

/// Of the first super-tile to the last.
GemmTimes predict(const Shape& shape, const GemmRates& rates, const std::vector<Pass>& passes,
                  std::uint64_t ring, std::uint64_t window);

/// The largest window that a ring allows, of batches of one segment of K. With split-k there is
/// none but the last batch: tiles leave once their sums have been exchanged.
std::uint64_t most_window(const Shape& shape, std::uint64_t ring);

}  // namespace shardstream::workloads
