// Arithmetic of the experiment l2-window: sizes of windows, and the results that its kernel must
// give.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardstream::experiments::memory {

/// An access policy window on the beginning of a region.
struct TunedWindow {
  std::uint64_t bytes;
  double hit_ratio;
};

/// The window for a region that may be larger than the part of the L2 cache that is set aside. It
/// has two thirds of that part, and hitRatio is its share of the region (CUDA C++ Best Practices
/// Guide, section Tuning the Access Window Hit-Ratio: 20 MB of 30 MB). A smaller region is all in
/// the window.
constexpr TunedWindow tuned_window(std::uint64_t set_aside, std::uint64_t region) {
  const std::uint64_t bytes = std::min(set_aside / 3 * 2, region);
  return {bytes, static_cast<double>(bytes) / static_cast<double>(region)};
}

/// How often an element of the hot region is updated. Thread t of `threads` handles the elements t,
/// t + threads, ... of a stream of `count` elements. For each of them, it updates one of the
/// elements t, t + threads, ... of the hot region, repeatedly and in this order. The hot region has
/// `hot_count` elements, at least `threads`.
constexpr std::uint64_t updates_of(std::uint64_t element, std::uint64_t threads,
                                   std::uint64_t count, std::uint64_t hot_count) {
  const std::uint64_t thread = element % threads, before = element / threads;
  const auto of_thread = [&](std::uint64_t all) {
    return thread < all ? (all - thread + threads - 1) / threads : 0;
  };
  const std::uint64_t steps = of_thread(count), own = of_thread(hot_count);
  return before < steps ? (steps - before + own - 1) / own : 0;
}

/// The reason why no part of the L2 cache is set aside; empty if a part is. `max` bytes can be set
/// aside. `error` is the message of the call that did so, empty if it succeeded, and `now` the
/// number of bytes afterwards.
inline std::string reason_for_no_set_aside(std::uint64_t max, std::string_view error,
                                           std::uint64_t now) {
  if (max == 0) {
    return "the GPU cannot set aside a part of its L2 cache, or is divided by MIG";
  }
  if (!error.empty()) {
    return "this process may not set aside a part of the L2 cache, as under MPS, without which "
           "this can be measured: " +
           std::string(error);
  }
  return now == 0 ? "no part of the L2 cache is set aside, although the call succeeded" : "";
}

}  // namespace shardstream::experiments::memory
