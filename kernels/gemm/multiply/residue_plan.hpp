// Products of residues on a host. Each is a product of floats, whose sums are exact.
#pragma once

#include <memory>

#include "kernels/gemm/multiply/multiply.hpp"

namespace shardstream::gemm {

/// make_multiply_plan() for a host and a precision that multiplies residues.
std::unique_ptr<MultiplyPlan> make_residue_plan(Precision precision, const Tile& tile);

}  // namespace shardstream::gemm
