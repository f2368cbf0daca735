#include "study/causes.hpp"

#include <algorithm>
#include <numeric>

#include "core/error.hpp"

namespace shardstream::study {
namespace {

double sum(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

double mean(std::span<const double> values) {
  return sum(values) / static_cast<double>(values.size());
}

}  // namespace

Result<Causes> find_causes(std::span<const double> useful, double wall) {
  if (useful.empty()) return Result<Causes>::none("no rank has recorded useful time");
  const double longest = *std::ranges::max_element(useful);
  if (!(wall > 0) || !(longest > 0)) return Result<Causes>::none("there is no useful time");
  return Result<Causes>::of({.balance = mean(useful) / longest, .busy = longest / wall});
}

Result<DeviceCauses> find_device_causes(std::span<const double> kernels,
                                        std::span<const double> active, double wall) {
  expect(kernels.size() == active.size(), "kernels and active have an entry a device");
  if (kernels.empty()) return Result<DeviceCauses>::none("no device has recorded kernels");
  const double longest = *std::ranges::max_element(kernels);
  const double busiest = *std::ranges::max_element(active);
  if (!(wall > 0) || !(longest > 0) || !(busiest > 0)) {
    return Result<DeviceCauses>::none("no device has recorded kernels");
  }
  return Result<DeviceCauses>::of(
      {.balance = mean(kernels) / longest, .overlap = longest / busiest, .active = busiest / wall});
}

Result<double> find_overlap(std::span<const double> busy, double wall) {
  const auto stages = std::ranges::count_if(busy, [](double seconds) { return seconds > 0; });
  if (stages < 2) return Result<double>::none("fewer than two stages have recorded time");
  const double all = sum(busy), longest = *std::ranges::max_element(busy);
  return Result<double>::of((all - wall) / (all - longest));
}

double union_of(std::vector<TimeSpan> spans) {
  std::ranges::sort(spans, {}, &TimeSpan::begin);
  std::int64_t covered = 0, end = 0;
  bool first = true;
  for (const TimeSpan& span : spans) {
    const std::int64_t begin = first ? span.begin : std::max(span.begin, end);
    if (span.end > begin) covered += span.end - begin;
    end = first ? span.end : std::max(end, span.end);
    first = false;
  }
  constexpr double nanosecond = 1e-9;
  return static_cast<double>(covered) * nanosecond;
}

}  // namespace shardstream::study
