// The boxes of ranks that are considered for a product.
#pragma once

#include <utility>
#include <vector>

#include "workloads/product/plan/plan.hpp"

namespace shardstream::workloads::product {

using Place = std::pair<Decomposition, Box>;

/// The boxes that are considered. Appends to `considered` what is known to be impossible. Throws
/// UsageError if the requested decomposition or box is impossible.
std::vector<Place> places_of(const Problem& problem, std::vector<Alternative>& considered);

}  // namespace shardstream::workloads::product
