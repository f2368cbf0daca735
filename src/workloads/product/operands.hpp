// The operands of a product.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/source/matrix.hpp"
#include "kernels/gemm/precision.hpp"

namespace shardstream::workloads::product {

/// C = alpha op(A) op(B) + beta C0; op(A) is m x k, op(B) k x n. `c` is null if beta is 0.
struct Operands {
  std::unique_ptr<io::Matrix> a, b, c;
  bool transpose_a = false, transpose_b = false;
  /// op(B) is the transpose of op(A), and the tiles below C's diagonal mirror those above.
  bool symmetric = false;
  /// The mean of each row of op(A), a variable, is subtracted; each is divided by its deviation.
  bool center = false, scale = false;
  double alpha = 1, beta = 0;
  /// Whether values are changed before they are multiplied.
  bool normalizes() const { return center || scale; }
  const io::Matrix& matrix(gemm::Side side) const { return side == gemm::Side::b ? *b : *a; }
  bool transposed(gemm::Side side) const {
    return side == gemm::Side::b ? transpose_b : transpose_a;
  }
  gemm::Precision precision = gemm::Precision::fp64;
  std::uint64_t m = 0, n = 0, k = 0;
  /// The values of the workload's own options that were auto, by key.
  std::vector<std::pair<std::string, std::string>> resolved = {};
  /// Warnings about the operands, for the run and the dry run.
  std::vector<std::string> warnings = {};
};

}  // namespace shardstream::workloads::product
