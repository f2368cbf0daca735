// The first pass over the data of a product that is centred or scaled, and what it takes.
#pragma once

#include <cstdint>

#include "kernels/gemm/grid.hpp"
#include "pipeline/options.hpp"
#include "runtime/runtime.hpp"
#include "workloads/gemm_operands.hpp"
#include "workloads/gemm_product.hpp"
#include "workloads/moments.hpp"

namespace shardstream::workloads {

/// Allocates once; run() may be repeated. For operands that are normalized. Runtime and operands
/// must outlive it.
class Normalizer {
 public:
  /// Of device memory, with what the product keeps of it: no share of what there is, since the size
  /// that would do, where too little is refused, must do. 0 where nothing is normalized.
  static std::uint64_t device_bytes(const GemmOperands& operands, const gemm::Tile& tile);

  Normalizer(runtime::Runtime& runtime, const GemmOperands& operands,
             const pipeline::Ring& staging);

  /// Finds the means and deviations and gives them to the product, which must not be running.
  /// Collective. Throws what Moments::run() throws.
  void run(GemmProduct& product);

  std::uint64_t constant() const { return constant_; }  ///< variables of the last run
  /// Bytes that this rank uploads in one run.
  std::uint64_t uploaded() const { return moments_.uploaded(); }

 private:
  const GemmOperands& operands_;
  Moments moments_;
  std::uint64_t constant_ = 0;
};

}  // namespace shardstream::workloads
