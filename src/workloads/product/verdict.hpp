// The verdict on a product, as a sentence.
#pragma once

#include <optional>
#include <string>

#include "workloads/product/data/operands.hpp"
#include "workloads/product/engine/normalization/not_finite.hpp"
#include "workloads/product/product_report.hpp"

namespace shardstream::workloads::product {

/// A sentence on what was verified, with the reasons why the rest could not be, and the remedies;
/// or on what failed. `not_finite`: the first value of the data that is not finite, if it is known.
std::string verdict_of(const Agreed& agreed, const Operands& operands,
                       const std::optional<NotFinite>& not_finite);

}  // namespace shardstream::workloads::product
