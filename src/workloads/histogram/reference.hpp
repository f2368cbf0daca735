// An independent reference for the bins of elements: a search in extended precision. It is slow and
// shares only the edges with the kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/histogram/bins.hpp"

namespace shardstream::workloads::histogram {

/// Adds the numbers of `count` elements in each bin, below, above and of NaNs to `counts`, which
/// has the order of bin_counts().
template <class T>
void add_reference_counts(const Bins& bins, const T* elements, std::uint64_t count,
                          std::vector<std::uint64_t>& counts);

}  // namespace shardstream::workloads::histogram
