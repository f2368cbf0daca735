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
  /// Whether op(B) is the transpose of op(A). C is then symmetric.
  bool symmetric = false;
  /// Each row of op(A) is a variable. `center`: its mean is subtracted. `scale`: it is divided by
  /// its standard deviation.
  bool center = false, scale = false;
  double alpha = 1, beta = 0;
  /// Whether values are changed before they are multiplied.
  bool normalizes() const { return center || scale; }
  /// Whether shifts have integer parts, which are subtracted from i64 elements in integers.
  bool has_whole_shifts() const { return center && a->type() == ElementType::i64; }
  const io::Matrix& matrix(gemm::Side side) const { return side == gemm::Side::b ? *b : *a; }
  bool transposed(gemm::Side side) const {
    return side == gemm::Side::b ? transpose_b : transpose_a;
  }
  gemm::Precision precision = gemm::Precision::fp64;
  std::uint64_t m = 0, n = 0, k = 0;
  /// The values that replace `auto` in the workload's own options, by key.
  std::vector<std::pair<std::string, std::string>> resolved = {};
  /// Warnings about the operands, for the run and the dry run.
  std::vector<std::string> warnings = {};
};

}  // namespace shardstream::workloads::product
