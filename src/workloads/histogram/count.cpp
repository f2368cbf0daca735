#include "workloads/histogram/count.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "kernels/vector_clones.hpp"

namespace shardstream::workloads::histogram {
namespace {

constexpr std::size_t group = 1024;  // elements whose places are found before they are counted

/// The counter of each of a few elements.
template <class T>
SHARDSTREAM_VECTOR_CLONES void find_places(const T* x, std::size_t count, const Cells<T>& given,
                                           std::uint32_t* places) {
  const Cells<T> cells = given;  // a copy, which stores to `places` cannot change
  bool all_in_range = true;
  for (std::size_t i = 0; i < count; ++i) {
    places[i] = cells(x[i]);
    all_in_range &= cells.in_range(x[i]);
  }
  if (all_in_range) return;
  for (std::size_t i = 0; i < count; ++i) {
    if (!cells.in_range(x[i])) places[i] = cells.outside(x[i]);
  }
}

/// Calls add(counter) for each element of this part.
template <class T, class Add>
void for_places(const CountArgs<T>& args, unsigned part, unsigned parts, Add add) {
  std::array<std::uint32_t, group> places;
  for (unsigned r = 0; r < args.ranges; ++r) {
    const Rows mine = rows_of(args.range[r].count, part, parts);
    for (std::uint64_t i = mine.begin; i < mine.end; i += group) {
      const std::size_t count = std::min<std::uint64_t>(group, mine.end - i);
      find_places<T>(args.elements + args.range[r].first + i, count, args.cells, places.data());
      for (std::size_t k = 0; k < count; ++k) add(places[k]);
    }
  }
}

/// The parts share the counters. So each counts by itself first, unless it has fewer elements than
/// there are counters.
template <class T>
void count_host(const CountArgs<T>& args, unsigned part, unsigned parts) {
  const auto add_to_all = [&](std::uint32_t counter, std::uint64_t n) {
    std::atomic_ref(args.counts[counter]).fetch_add(n, std::memory_order_relaxed);
  };
  const std::uint32_t counters = args.cells.count() + outside_counters;
  std::uint64_t elements = 0;
  for (unsigned r = 0; r < args.ranges; ++r) elements += args.range[r].count;
  if (elements / parts < counters) {
    for_places(args, part, parts, [&](std::uint32_t counter) { add_to_all(counter, 1); });
    return;
  }
  std::vector<std::uint64_t> own(counters);
  for_places(args, part, parts, [&](std::uint32_t counter) { ++own[counter]; });
  for (std::uint32_t i = 0; i < counters; ++i) {
    if (own[i] > 0) add_to_all(i, own[i]);
  }
}

}  // namespace

template <class T>
Kernel<CountArgs<T>> count_kernel() {
  return {"histogram_count", count_host<T>, with_cuda<cuda::count<T>>()};
}

template Kernel<CountArgs<float>> count_kernel();
template Kernel<CountArgs<double>> count_kernel();
template Kernel<CountArgs<std::int32_t>> count_kernel();
template Kernel<CountArgs<std::int64_t>> count_kernel();
template Kernel<CountArgs<std::int8_t>> count_kernel();
template Kernel<CountArgs<std::uint8_t>> count_kernel();
template Kernel<CountArgs<std::uint64_t>> count_kernel();

}  // namespace shardstream::workloads::histogram
