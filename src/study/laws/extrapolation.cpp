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

/// Moves the value and the ends of the interval to at most `max`, and the ends to at least zero.
Estimate possible(Estimate estimate, double max) {
  estimate.value = std::min(estimate.value, max);
  if (!estimate.interval) return estimate;
  auto& [lo, hi] = *estimate.interval;
  lo = std::clamp(lo, 0.0, max);
  hi = std::min(hi, max);
  return estimate;
}

/// The reason why a law with this serial share predicts nothing, or "".
std::string why_impossible(const Estimate& share) {
  const Interval ends = share.interval.value_or(Interval{share.value, share.value});
  if (ends.lo <= 1 && ends.hi >= 0) return {};
  return fmt::format("the fitted serial share, {:.3g}, is not between 0 and 1", share.value);
}

}  // namespace

Result<Extrapolation> extrapolate(const Amdahl& law, int ranks) {
  using Found = Result<Extrapolation>;
  if (law.law.fit.verdict == FitVerdict::does_not_fit) return Found::none(rejected);
  if (std::string why = why_impossible(law.serial_share); !why.empty()) {
    return Found::none(std::move(why));
  }
  const auto next = law.predict(ranks);
  if (!next) return Found::none(next.why_not);
  Extrapolation found{.ranks = ranks, .efficiency = possible(next->efficiency, 1)};
  found.seconds = possible(next->seconds, unlimited);
  found.seconds->value = std::max(found.seconds->value, law.ideal_seconds(ranks));
  found.speedup = possible(next->speedup, ranks);
  const Estimate& serial = law.serial_seconds;
  if (serial.interval.value_or(Interval{serial.value, serial.value}).lo > 0) {
    found.max_speedup = law.reference * law.reference_seconds.value / serial.value;
  }
  return Found::of(std::move(found));
}

Result<Extrapolation> extrapolate(const Gustafson& law, int ranks) {
  using Found = Result<Extrapolation>;
  if (law.fit.verdict == FitVerdict::does_not_fit) return Found::none(rejected);
  if (std::string why = why_impossible(law.serial_share); !why.empty()) {
    return Found::none(std::move(why));
  }
  const Estimate efficiency = law.predict_efficiency(ranks);
  if (!(efficiency.value > 0)) {
    return Found::none(fmt::format("the law gives no positive rate on {}", counted(ranks, "rank")));
  }
  return Found::of({.ranks = ranks, .efficiency = possible(efficiency, 1)});
}

}  // namespace shardstream::study
