// Arithmetic on the times at which kernels ran, by the GPU's timer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shardstream::experiments::execution {

/// From the begin to the end of a kernel or of a part of it, in nanoseconds.
struct Span {
  std::uint64_t begin, end;
};

/// From the earliest begin to the latest end. Needs at least one span.
inline Span hull(const std::vector<Span>& spans) {
  Span all = spans.front();
  for (const Span& span : spans) {
    all = {std::min(all.begin, span.begin), std::max(all.end, span.end)};
  }
  return all;
}

/// The time that all hulls share; it has the length 0 if they share none.
inline Span common(const std::vector<Span>& hulls) {
  Span shared = hulls.front();
  for (const Span& hull : hulls) {
    shared = {std::max(shared.begin, hull.begin), std::min(shared.end, hull.end)};
  }
  return {shared.begin, std::max(shared.begin, shared.end)};
}

}  // namespace shardstream::experiments::execution
