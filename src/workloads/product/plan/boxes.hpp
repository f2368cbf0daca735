// The boxes of ranks that are considered for a product.
#pragma once

#include <utility>
#include <vector>

#include "workloads/product/plan/choice.hpp"

namespace shardstream::workloads::product {

using ConsideredBox = std::pair<Decomposition, Box>;

/// The boxes that are considered. If split-k is impossible, that is appended to `considered`.
/// Throws UsageError if the requested decomposition or box is impossible.
std::vector<ConsideredBox> places_of(const Problem& problem, std::vector<Alternative>& considered);

}  // namespace shardstream::workloads::product
