// The report of `reduce`: the table of its results, and the exact values of the statistics of all
// elements in leaves.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/table.hpp"
#include "io/source/source.hpp"
#include "kernels/reduce/partial.hpp"
#include "kernels/reduce/reference.hpp"
#include "workloads/reduce/cells/cell.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads {

/// The table of the results, which is created on first use.
Table& statistics_table(Outcome& outcome);

/// The coordinates of element `index`, such as "12,34"; empty for no_index.
std::string place(const io::Source& source, std::int64_t index);

/// Throws the Error for values that are missing or NaN if reduce.missing is error. `first` is the
/// index of the first one.
[[noreturn]] void reject(const io::Source& source, std::uint64_t missing, std::int64_t first);

/// The statistics of all elements as those of a single cell. `T` is the class of the elements.
template <class T>
CellMoments all_moments(const reduce::Partial<T>& total) {
  CellMoments all{.count = total.count,
                  .sum = reduce::to_double(total.sum),
                  .weight = static_cast<double>(total.count),
                  .m2 = total.m2,
                  .product = {},
                  .min_index = total.min_index,
                  .max_index = total.max_index};
  if constexpr (std::integral<T>) all.exact_sum = total.sum;
  const bool has_extremes = total.min_index != reduce::no_index;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  all.min = has_extremes ? value_of(total.min) : value_of(nan);
  all.max = has_extremes ? value_of(total.max) : value_of(nan);
  return all;
}

/// The elements that are not valid.
struct Invalid {
  std::int64_t missing;  ///< declared by attributes
  std::int64_t nans;     ///< all other NaNs
  bool makes_nan;        ///< whether every result but the count is NaN
  std::int64_t first;    ///< the first of those that make it so, if it is known; or no_index
};

/// Everything that determines the results of leaves.
struct LeafResults {
  const io::Source& source;
  const std::vector<std::string>& ops;
  const CellRules& rules;
  const CellMoments& total;
  const Invalid& invalid;
  const reduce::LeafCheck& check;
  bool is_whole;    ///< all elements were counted, and exact statistics of sampled leaves are right
  bool overflows;   ///< sums of finite elements have exceeded the range of double
  bool underflows;  ///< squares of deviations that are not 0 have lost digits
};

/// Fills in the table and the printed lines. The result is verified if it is whole and no operation
/// deviates by more than its bound. A value out of range is named and not verified. Only the root,
/// whose results count, reads coordinates. `warnings`: as for io::labels_of().
void report_leaves(const LeafResults& results, bool is_root, std::vector<std::string>& warnings,
                   Outcome& outcome);

}  // namespace shardstream::workloads
