// The predicted time of a product that is cut in a certain way.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/product/plan/memory.hpp"

namespace shardstream::workloads::product {

/// The time from the first super-tile to the last, whose passes are `passes`.
TimePrediction predict(const Shape& shape, const Rates& rates, const std::vector<Pass>& passes,
                       std::uint64_t ring, std::uint64_t window);

/// The largest window that a ring allows: batches of one segment of K. With split-k it is the last
/// batch alone, because tiles leave only after their sums have been exchanged.
std::uint64_t max_window(const Shape& shape, std::uint64_t ring);

}  // namespace shardstream::workloads::product
