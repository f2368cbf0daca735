#include "study/laws/extrapolation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/text.hpp"

namespace shardstream::study {
namespace {

constexpr const char* rejected = "the law does not fit";
constexpr double unlimited = std::numeric_limits<double>::infinity();

/// Moves the ends of the interval into 0..max. A value beyond max is left alone.
Estimate possible(Estimate estimate, double max) {
  if (!estimate.interval) return estimate;
  auto& [lo, hi] = *estimate.interval;
  lo = std::max(lo, 0.0);
  if (estimate.value <= max) hi = std::min(hi, max);
  return estimate;
}

/// The maximum of an efficiency by a law with this serial share.
double max_efficiency(const Estimate& serial_share) {
  return serial_share.value < 0 ? unlimited : 1;
}

}  // namespace

Result<Extrapolation> extrapolate(const Amdahl& law, int ranks) {
  using Found = Result<Extrapolation>;
  if (law.law.fit.verdict == FitVerdict::does_not_fit) return Found::none(rejected);
  const auto next = law.predict(ranks);
  if (!next) return Found::none(next.why_not);
  const double max = max_efficiency(law.serial_share);
  Extrapolation found{.ranks = ranks, .efficiency = possible(next->efficiency, max)};
  found.seconds = possible(next->seconds, unlimited);
  found.speedup = possible(next->speedup, max * ranks);
  const Estimate& serial = law.serial_seconds;
  if (serial.interval.value_or(Interval{serial.value, serial.value}).lo > 0) {
    found.max_speedup = law.reference * law.reference_seconds.value / serial.value;
  }
  return Found::of(std::move(found));
}

Result<Extrapolation> extrapolate(const Gustafson& law, int ranks) {
  using Found = Result<Extrapolation>;
  if (law.fit.verdict == FitVerdict::does_not_fit) return Found::none(rejected);
  const Estimate efficiency = law.predict_efficiency(ranks);
  if (!(efficiency.value > 0)) {
    return Found::none(fmt::format("the law gives no positive rate on {}", counted(ranks, "rank")));
  }
  return Found::of(
      {.ranks = ranks, .efficiency = possible(efficiency, max_efficiency(law.serial_share))});
}

}  // namespace shardstream::study
