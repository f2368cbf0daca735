// Means and squares of a data set's variables: one pass over a matrix larger than the device, by
// all ranks, before its product with itself is centred or scaled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/shard.hpp"
#include "device/buffer.hpp"
#include "io/matrix.hpp"
#include "pipeline/options.hpp"
#include "pipeline/upload_ring.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::workloads {

/// Allocates once; run() may be repeated. Runtime and matrix must outlive it. The results are those
/// of the last run, the same bits on every rank, for any number of ranks and any memory.
class Moments {
 public:
  /// A variable is a row of the matrix, or a column. Takes up to a quarter of `device_bytes` for
  /// its batches, at most 64 MiB, but at least two of them: 2 MiB or one sample of all variables.
  /// Collective: reads the first sample.
  Moments(runtime::Runtime& runtime, const io::Matrix& matrix, bool variables_are_rows,
          std::uint64_t device_bytes, const pipeline::Ring& staging);

  /// Streams the matrix through the device, each rank a part of it. Collective. Throws Error where
  /// what was uploaded is not what was read, and what the matrix throws.
  void run();

  /// Of each variable. What is not finite makes its variable's values not finite.
  const std::vector<double>& means() const { return means_; }
  /// Sum of (x - mean)^2. Loses digits where the first sample is very far from the mean: relative
  /// error some 2^-53 (1 + ((first - mean) / deviation)^2).
  const std::vector<double>& squares() const { return squares_; }
  /// Sum of x^2.
  const std::vector<double>& raw_squares() const { return raw_squares_; }

  /// Bytes that this rank uploads in one run.
  std::uint64_t uploaded() const { return uploaded_; }
};

}  // namespace shardstream::workloads
