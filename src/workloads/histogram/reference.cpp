#include "workloads/histogram/reference.hpp"

#include <limits>

namespace shardstream::workloads::histogram {
namespace {

using Exact = long double;  // holds doubles and 64-bit integers
static_assert(std::numeric_limits<Exact>::digits >= 64);

std::uint32_t searched_place(const Bins& bins, Exact x) {
  if (x != x) return bins.count + nan;
  if (x < bins.low) return bins.count + below;
  if (x > bins.high) return bins.count + above;
  std::uint32_t bin = 0, end = bins.count;
  while (end - bin > 1) {
    const std::uint32_t middle = bin + (end - bin) / 2;
    (x < bins.edge(middle) ? end : bin) = middle;
  }
  return bin;
}

}  // namespace

template <class T>
void add_reference_counts(const Bins& bins, const T* elements, std::uint64_t count,
                          std::vector<std::uint64_t>& counts) {
  for (std::uint64_t i = 0; i < count; ++i) ++counts[searched_place(bins, elements[i])];
}

template void add_reference_counts(const Bins&, const float*, std::uint64_t,
                                   std::vector<std::uint64_t>&);
template void add_reference_counts(const Bins&, const double*, std::uint64_t,
                                   std::vector<std::uint64_t>&);
template void add_reference_counts(const Bins&, const std::int32_t*, std::uint64_t,
                                   std::vector<std::uint64_t>&);
template void add_reference_counts(const Bins&, const std::int64_t*, std::uint64_t,
                                   std::vector<std::uint64_t>&);
template void add_reference_counts(const Bins&, const std::int8_t*, std::uint64_t,
                                   std::vector<std::uint64_t>&);
template void add_reference_counts(const Bins&, const std::uint8_t*, std::uint64_t,
                                   std::vector<std::uint64_t>&);
template void add_reference_counts(const Bins&, const std::uint64_t*, std::uint64_t,
                                   std::vector<std::uint64_t>&);

}  // namespace shardstream::workloads::histogram
