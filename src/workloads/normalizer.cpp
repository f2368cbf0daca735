#include "workloads/normalizer.hpp"

#include <utility>

#include "workloads/gram.hpp"

namespace shardstream::workloads {
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
