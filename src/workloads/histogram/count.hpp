// Counts the elements of each bin.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/shard.hpp"
#include "kernels/kernel.hpp"
#include "workloads/histogram/bins.hpp"

namespace shardstream::workloads::histogram {

/// The cells that elements of a type are counted in: the bins, or the values of bytes.
template <class T>
using Cells = std::conditional_t<sizeof(T) == 1, ByteValues<T>, Locator<T>>;

/// Adds the numbers of elements in each cell, below, above and NaNs to `counts`. The pointers
/// are to device memory. Kernels that may run at the same time need separate counters.
template <class T>
struct CountArgs {
  static constexpr unsigned max_ranges = 16;

  const T* elements;      ///< aligned to 16 bytes
  std::uint64_t* counts;  ///< cells.count() + outside_counters
  Cells<T> cells;
  unsigned ranges;          ///< at most max_ranges; elements in none of the ranges do not count
  Range range[max_ranges];  ///< of indices of `elements`; each begins at a multiple of 16
};

template <class T>
Kernel<CountArgs<T>> count_kernel();

/// The index in bin_counts() of elements that equal x.
template <class T>
std::uint32_t place_of(const Bins& bins, T x) {
  using Number = std::conditional_t<sizeof(T) == 1, std::int32_t, T>;
  const Locator<Number> bin(bins);
  return bin.in_range(x) ? bin(x) : bin.outside(x);
}

/// The numbers of elements in each bin, below, above and of NaNs, from those in each cell.
template <class T>
std::vector<std::uint64_t> bin_counts(const Bins& bins, const std::uint64_t* counts) {
  if constexpr (sizeof(T) > 1) return {counts, counts + bins.count + outside_counters};
  std::vector<std::uint64_t> sums(bins.count + outside_counters);
  for (std::int32_t i = 0; i < 256; ++i) {
    sums[place_of(bins, static_cast<T>(i + std::numeric_limits<T>::min()))] += counts[i];
  }
  return sums;
}

/// The launcher. It enqueues one kernel and does not wait.
namespace cuda {
template <class T>
void count(const CountArgs<T>& args, CudaStream stream);
}  // namespace cuda

}  // namespace shardstream::workloads::histogram
