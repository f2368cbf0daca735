// A plan as text.
#pragma once

#include <string>
#include <vector>

#include "workloads/product/plan/product_plan.hpp"

namespace shardstream::workloads::product {

/// The predicted time and the device memory, as two lines of text.
std::vector<std::string> answer(const Plan& plan);
/// The rest of the plan as lines of text.
std::vector<std::string> describe(const Plan& plan);
/// How a block of K is divided: " in 64 lanes, folded 16 times", or empty.
std::string words_of_parts(const gemm::Tile& tile);

}  // namespace shardstream::workloads::product
