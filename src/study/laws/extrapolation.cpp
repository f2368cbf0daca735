#include "study/laws/extrapolation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/text.hpp"

namespace shardstream::study {
namespace {

constexpr const char* rejected = "the law does not fit";
constexpr double unlimited = std::numeric_limits<double>::infinity();

/// Moves the value to within `min` and `max`, and the ends of the interval to at most `max` and at
/// least zero. The interval then contains the value.
Estimate possible(Estimate estimate, double min, double max) {
  estimate.value = std::clamp(estimate.value, std::min(min, max), max);
  if (!estimate.interval) return estimate;
  auto& [lo, hi] = *estimate.interval;
  lo = std::min(std::clamp(lo, 0.0, max), estimate.value);
  hi = std::max(std::min(hi, max), estimate.value);
  return estimate;
}

/// The reason why a law with this serial share predicts nothing, or "". `quantity` is the law's
/// time or speed-up on the largest size, as a function of the share. A share outside 0..1 may stand
/// for 0 or 1 if the difference on this size is irrelevant; or if scatter explains it, it is no
/// more than a fitting law may be off, and the interval tells shares within 0..1 apart.
template <class Quantity>
std::string why_impossible(const Estimate& share, Quantity quantity) {
  const double nearest = std::clamp(share.value, 0.0, 1.0);
  const double off = std::abs(quantity(share.value) / quantity(nearest) - 1);
  const auto [lo, hi] = share.interval.value_or(Interval{share.value, share.value});
  const bool is_explained = lo <= nearest && nearest <= hi && !(lo <= 0 && hi >= 1);
  if (off <= min_relevant || (off <= max_error_of_fit && is_explained)) return {};
  return fmt::format("the fitted serial share, {:.3g}, is not between 0 and 1", share.value);
}

/// The largest size of a fit, as a multiple of the smallest one.
double largest_of(const std::vector<Residual>& residuals) {
  return static_cast<double>(residuals.back().ranks) / residuals.front().ranks;
}

}  // namespace

Result<Extrapolation> extrapolate(const Amdahl& law, int ranks) {
  using Found = Result<Extrapolation>;
  if (law.law.fit.verdict == FitVerdict::does_not_fit) return Found::none(rejected);
  const double q = largest_of(law.law.residuals);
  const auto time_with = [q](double share) { return share + (1 - share) / q; };
  if (std::string why = why_impossible(law.serial_share, time_with); !why.empty()) {
    return Found::none(std::move(why));
  }
  const auto next = law.predict(ranks);
  if (!next) return Found::none(next.why_not);
  // A share above 1 counts as 1: more ranks change nothing, and the speed-up on p0 ranks is p0.
  const double reference = law.reference;
  Extrapolation found{.ranks = ranks, .efficiency = possible(next->efficiency, 0, 1)};
  found.seconds = possible(next->seconds, law.ideal_seconds(ranks), unlimited);
  found.speedup = possible(next->speedup, 0, ranks);
  if (law.serial_share.value > 1) {
    found.efficiency = possible(next->efficiency, reference / ranks, 1);
    found.seconds = possible(next->seconds, 0, law.reference_seconds.value);
    found.speedup = possible(next->speedup, reference, ranks);
  }
  const Estimate& serial = law.serial_seconds;
  if (serial.interval.value_or(Interval{serial.value, serial.value}).lo > 0) {
    found.max_speedup = std::max(reference, reference * law.reference_seconds.value / serial.value);
  }
  return Found::of(std::move(found));
}

Result<Extrapolation> extrapolate(const Gustafson& law, int ranks) {
  using Found = Result<Extrapolation>;
  if (law.fit.verdict == FitVerdict::does_not_fit) return Found::none(rejected);
  const double q = largest_of(law.residuals);
  const auto speedup_with = [q](double share) { return q - share * (q - 1); };
  if (std::string why = why_impossible(law.serial_share, speedup_with); !why.empty()) {
    return Found::none(std::move(why));
  }
  const Estimate efficiency = law.predict_efficiency(ranks);
  if (!(efficiency.value > 0)) {
    return Found::none(fmt::format("the law gives no positive rate on {}", counted(ranks, "rank")));
  }
  const double min = law.serial_share.value > 1 ? static_cast<double>(law.reference) / ranks : 0;
  return Found::of({.ranks = ranks, .efficiency = possible(efficiency, min, 1)});
}

}  // namespace shardstream::study
