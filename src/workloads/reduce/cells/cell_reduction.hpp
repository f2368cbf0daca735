// The part of `reduce` that computes statistics for each cell of the kept dimensions.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/options.hpp"
#include "io/source/source.hpp"
#include "workloads/stream/computation.hpp"

namespace shardstream::workloads {

struct CellRequest {
  std::vector<std::string> ops;
  /// The dimensions over which the statistics are taken, as indices of ElementArray::selection.
  std::vector<std::size_t> reduced;
  /// Whether the result is an array for each operation, even if it has a single element. Otherwise
  /// it becomes rows of the table `reduce`.
  bool makes_arrays;
  /// Whether the elements are one row in the order of storage, and `reduced` is its only dimension.
  /// The result then also has the positions of the minimum and the maximum, and of NaNs.
  bool is_row = false;
  std::uint64_t unit = 1;  ///< units are multiples of this number of elements
};

/// Uses reduce.missing, reduce.ddof, reduce.by and reduce.weights. `options` and `source` must
/// outlive it. Throws UsageError for options that are not possible.
std::unique_ptr<stream::Computation> make_cell_reduction(const Options& options,
                                                         const io::Source& source,
                                                         const CellRequest& request);

}  // namespace shardstream::workloads
