// Arithmetic on the times at which kernels ran, by the GPU's timer, which all processes share, and
// the number of kernels that may run at the same time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/statistics.hpp"

namespace shardstream::experiments::execution {

/// From the begin to the end of a kernel or of a part of it, in nanoseconds.
struct Span {
  std::uint64_t begin, end;
};

/// The largest number of spans that cover the same moment. A span that begins when another one ends
/// does not overlap it. 0 without spans.
inline unsigned largest_overlap(const std::vector<Span>& spans) {
  std::vector<std::pair<std::uint64_t, int>> changes;  // at a time, ends come before begins
  for (const Span& span : spans) {
    changes.emplace_back(span.begin, 1);
    changes.emplace_back(span.end, -1);
  }
  std::ranges::sort(changes);
  int now = 0, largest = 0;
  for (const auto& [time, change] : changes) largest = std::max(largest, now += change);
  return static_cast<unsigned>(largest);
}

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

/// The number of spans inside `window`. One that lies only partly inside counts with that part of
/// its length.
inline double count_inside(const std::vector<Span>& spans, Span window) {
  double count = 0;
  for (const Span& span : spans) {
    const Span inside = common({span, window});
    if (span.end > span.begin) {
      count += static_cast<double>(inside.end - inside.begin) /
               static_cast<double>(span.end - span.begin);
    }
  }
  return count;
}

/// The median length of the spans in nanoseconds, without the first and the last one, which the
/// begin and the end of the measurement cut off. NaN for fewer than three spans.
inline double median_length(const std::vector<Span>& spans) {
  std::vector<double> lengths;
  for (std::size_t i = 1; i + 1 < spans.size(); ++i) {
    lengths.push_back(static_cast<double>(spans[i].end - spans[i].begin));
  }
  return median(std::move(lengths));
}

/// The maximum number of grids that run at the same time on a GPU of this compute capability (90
/// for 9.0): CUDA C++ Programming Guide, table Technical Specifications per Compute Capability.
/// Devices newer than the table count as its last row.
constexpr unsigned max_resident_grids(int compute_capability) {
  switch (compute_capability) {
    case 50:
    case 52:
    case 61:
      return 32;
    case 53:
    case 62:
    case 72:
      return 16;
    default:
      return 128;
  }
}

}  // namespace shardstream::experiments::execution
