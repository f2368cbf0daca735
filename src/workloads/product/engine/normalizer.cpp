#include "workloads/product/engine/normalizer.hpp"

#include <cmath>
#include <limits>

#include <utility>

namespace shardstream::workloads {

Normalization normalization(const GemmOperands& operands, const Moments& moments) {
  Normalization made;
  if (operands.center) made.shift = moments.means();
  if (!operands.scale) return made;
  for (const double squares : operands.center ? moments.squares() : moments.raw_squares()) {
    const double deviation = std::sqrt(squares * operands.alpha);
    made.constant += deviation == 0 ? 1 : 0;
    // An infinite one is of squares beyond doubles, and not the variable's.
    const double nan = std::numeric_limits<double>::quiet_NaN();
    made.scale.push_back(deviation == 0 ? 0 : std::isinf(deviation) ? nan : 1 / deviation);
  }
  return made;
}
namespace {

std::uint64_t of_moments(const GemmOperands& operands) {
  return Moments::device_bytes(*operands.a, !operands.transpose_a);
}

}  // namespace

std::uint64_t Normalizer::device_bytes(const GemmOperands& operands, const gemm::Tile& tile) {
  if (!operands.normalizes()) return 0;
  return of_moments(operands) + GemmPanels::normalization_bytes(operands, tile);
}

Normalizer::Normalizer(runtime::Runtime& runtime, const GemmOperands& operands,
                       const pipeline::Ring& staging)
    : operands_(operands),
      moments_(runtime, *operands.a, !operands.transpose_a, of_moments(operands), staging) {}

void Normalizer::run(GemmProduct& product) {
  moments_.run();
  Normalization made = normalization(operands_, moments_);
  constant_ = made.constant;
  product.normalize(std::move(made.shift), std::move(made.scale));
}

}  // namespace shardstream::workloads
