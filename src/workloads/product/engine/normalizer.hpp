// The first pass over the data of a product that is centred or scaled, and what it takes.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gemm/grid.hpp"
#include "pipeline/options.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/engine/moments.hpp"
#include "workloads/product/engine/product.hpp"
#include "workloads/product/operands.hpp"

namespace shardstream::workloads {

/// What the elements of each variable become before they are multiplied: (x - shift) * scale.
struct Normalization {
  std::vector<double> shift, scale;  ///< empty: none
  std::uint64_t constant = 0;        ///< variables whose scale is 0, since they have no deviation
};
/// The deviation is the root of the mean square over the divisor that alpha has: around the mean if
/// the operands are centred, else around 0.
Normalization normalization(const GemmOperands& operands, const Moments& moments);

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
