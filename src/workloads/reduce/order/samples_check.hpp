// The check of the counts of sampled ranges with the elements themselves, without keys.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include "workloads/reduce/order/division.hpp"
#include "workloads/stream/computation.hpp"

namespace shardstream::workloads::order_statistics {

/// Whether a comes before b: -0 < +0. Not for NaN.
template <class T>
bool is_less(T a, T b) {
  if constexpr (std::floating_point<T>) {
    return a < b || (a == b && std::signbit(a) && !std::signbit(b));
  } else {
    return a < b;
  }
}

template <class T>
class SamplesCheck {
 public:
  explicit SamplesCheck(const stream::ShardContext& context)
      : context_(context),
        counts_(*context.runtime.device, device::Memory::device, order::max_intervals),
        downloaded_(*context.runtime.device, device::Memory::pinned, order::max_intervals) {}

  /// Clears the counters, max_intervals words of device memory.
  void begin(device::Stream& compute) {
    std::fill_n(downloaded_.data(), downloaded_.size(), 0);
    compute.upload(counts_.data(), downloaded_.data(), downloaded_.bytes());
  }
  std::uint64_t* counts() const { return counts_.data(); }
  void download(device::Stream& compute) {
    compute.download(downloaded_.data(), counts_.data(), counts_.bytes());
  }

  /// Whether the counts of this rank's ranges are those of the parts of `division`.
  bool agrees(const Division<T>& division, const order::Missing<T>& missing) const {
    std::vector<T> valid;
    std::uint64_t all = 0, counted = 0;
    for (std::size_t i = 0; i < context_.samples.ranges().size(); ++i) {
      const auto* const elements = reinterpret_cast<const T*>(context_.samples.data(i));
      const std::uint64_t count = context_.samples.ranges()[i].count;
      std::copy_if(elements, elements + count, std::back_inserter(valid),
                   [&](T x) { return !missing(x); });
      all += count;
    }
    std::ranges::sort(valid, is_less<T>);
    for (std::size_t i = 0; i < division.parts().size(); ++i) {
      const auto& part = division.parts()[i];
      counted += downloaded_[i];
      if (part.is_missing) continue;
      const T first = order::value_of<T>(part.keys.first),
              last = order::value_of<T>(part.keys.last);
      const auto begin = std::ranges::lower_bound(valid, first, is_less<T>);
      const auto end = std::ranges::upper_bound(begin, valid.end(), last, is_less<T>);
      if (static_cast<std::uint64_t>(end - begin) != downloaded_[i]) return false;
    }
    return counted == all;
  }

 private:
  const stream::ShardContext& context_;
  device::Buffer<std::uint64_t> counts_, downloaded_;
};

}  // namespace shardstream::workloads::order_statistics
