#include "kernels/order/digits.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

namespace shardstream::order {
namespace {

void add_to(std::uint64_t& counter, std::uint64_t n) {
  if (n > 0) std::atomic_ref(counter).fetch_add(n, std::memory_order_relaxed);
}

/// The parts share the counters, so each counts by itself first.
template <class K>
void digits_host(const DigitArgs<K>& args, unsigned part, unsigned parts) {
  const Rows mine = rows_of(args.count, part, parts);
  if (mine.begin == mine.end) return;
  std::vector<std::uint64_t> own(std::size_t{args.number} << args.bits);
  const DigitRange<K>* const end = args.ranges + args.number;
  for (std::uint64_t i = mine.begin; i < mine.end; ++i) {
    const K key = args.keys[i];
    const auto* const range =
        std::lower_bound(args.ranges, end, key,
                         [](const DigitRange<K>& each, K wanted) { return each.last < wanted; });
    if (range == end || key < range->first) continue;
    const auto number = static_cast<std::size_t>(range - args.ranges);
    ++own[(number << args.bits) + ((key - range->first) >> range->shift)];
  }
  for (std::size_t i = 0; i < own.size(); ++i) add_to(args.counts[i], own[i]);
}

template <class T>
void sample_host(const SampleArgs<T>& args, unsigned part, unsigned parts) {
  const std::uint64_t begin = args.first >> args.stride;
  const std::uint64_t end = ((args.first + args.count - 1) >> args.stride) + 1;
  const Rows mine = rows_of(end - begin, part, parts);
  std::vector<Key<T>> own;
  for (std::uint64_t i = begin + mine.begin; i < begin + mine.end; ++i) {
    const std::uint64_t place = sampled_place(i, args.stride) - args.first;  // wraps if before
    if (place >= args.count || args.missing(args.elements[place])) continue;
    own.push_back(key_of(args.elements[place]));
  }
  const std::uint64_t at = std::atomic_ref(*args.sampled).fetch_add(own.size());
  for (std::size_t i = 0; i < own.size() && at + i < args.capacity; ++i) {
    args.keys[at + i] = own[i];
  }
}

}  // namespace

template <class K>
Kernel<DigitArgs<K>> digit_kernel() {
  return {"order_digits", digits_host<K>, with_cuda<cuda::digits<K>>()};
}

template <class T>
Kernel<SampleArgs<T>> sample_kernel() {
  return {"order_sample", sample_host<T>, with_cuda<cuda::sample<T>>()};
}

template Kernel<DigitArgs<std::uint32_t>> digit_kernel();
template Kernel<DigitArgs<std::uint64_t>> digit_kernel();

template Kernel<SampleArgs<float>> sample_kernel();
template Kernel<SampleArgs<double>> sample_kernel();
template Kernel<SampleArgs<std::int32_t>> sample_kernel();
template Kernel<SampleArgs<std::int64_t>> sample_kernel();
template Kernel<SampleArgs<std::int8_t>> sample_kernel();
template Kernel<SampleArgs<std::uint8_t>> sample_kernel();
template Kernel<SampleArgs<std::uint64_t>> sample_kernel();

}  // namespace shardstream::order
