// The predicted time of a product that is cut in a certain way.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/product/plan/memory.hpp"

namespace shardstream::workloads::product {

/// The time of the product whose super-tiles are `passes`, in this order, with a ring of `ring`
/// batches and a window of `window` batches.
TimePrediction predict(const Shape& shape, const Rates& rates, const std::vector<Pass>& passes,
                       std::uint64_t ring, std::uint64_t window);

/// The largest window in a ring of `ring` batches. All its batches must be in one segment of K.
/// With split-k the window is one batch, because tiles leave only after their sums have been
/// exchanged.
std::uint64_t max_window(const Shape& shape, std::uint64_t ring);

}  // namespace shardstream::workloads::product
