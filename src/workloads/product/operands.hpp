// What is multiplied.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/source/matrix.hpp"
#include "kernels/gemm/precision.hpp"

namespace shardstream::workloads {

/// C = alpha op(A) op(B) + beta C0; op(A) is m x k, op(B) k x n. `c` is null where beta is 0.
struct GemmOperands {
  std::unique_ptr<io::Matrix> a, b, c;
  bool transpose_a = false, transpose_b = false;
  /// op(B) is the transpose of op(A), and the tiles below C's diagonal mirror those above.
  bool symmetric = false;
  /// The mean of each row of op(A), a variable, is subtracted; each is divided by its deviation.
  bool center = false, scale = false;
  double alpha = 1, beta = 0;
  /// Whether what is read is not yet what is multiplied, even in another type.
  bool normalizes() const { return center || scale; }
  const io::Matrix& matrix(bool of_b) const { return of_b ? *b : *a; }
  bool transposed(bool of_b) const { return of_b ? transpose_b : transpose_a; }
  gemm::Precision precision = gemm::Precision::fp64;
  std::uint64_t m = 0, n = 0, k = 0;
  /// What the workload's own options came to where they were auto, by key.
  std::vector<std::pair<std::string, std::string>> resolved = {};
};

}  // namespace shardstream::workloads
