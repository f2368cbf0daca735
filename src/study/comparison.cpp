#include "study/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "study/sizes.hpp"
#include "study/statistics/distributions.hpp"

namespace shardstream::study {
namespace {

constexpr double normal_95 = 1.959964;  // 95 % of a normal distribution lie within this deviation

SideSamples sampling_of(std::span<const Repetitions> launches) {
  SideSamples sampling{.launches = launches.size(),
                       .repetitions = std::ranges::min(launches, {}, &Repetitions::size).size()};
  if (sampling.launches < min_launches && sampling.repetitions < min_repetitions) {
    sampling.missing_launches = min_launches - sampling.launches;
    sampling.missing_repetitions = min_repetitions - sampling.repetitions;
  }
  return sampling;
}

/// Two sizes of a study with the same work: `before` with one rank, `after` with two. So the
/// interval of their ratio is that of a speed-up.
Study as_study(std::span<const Repetitions> before, std::span<const Repetitions> after) {
  std::vector<MeasuredLaunch> launches;
  const auto add = [&](int ranks, const Repetitions& repetitions) {
    for (const double value : repetitions) {
      if (const auto reason = why_invalid({ranks, value, 1})) {
        throw UsageError("the comparison has " + *reason);
      }
    }
    launches.push_back({ranks, summarize(repetitions).median, 1});
  };
  for (const Repetitions& each : before) add(1, each);
  for (const Repetitions& each : after) add(2, each);
  return tabulate(Mode::strong, std::move(launches), Trend::none);
}

/// The factor by which the autocorrelation of repetitions widens the interval of their median.
double widening(const Repetitions& repetitions) {
  constexpr double max = 0.9;  // few repetitions cannot tell more from a drift
  const double estimate = autocorrelation(repetitions);
  if (!std::isfinite(estimate)) return 1;  // all are equal
  const auto n = static_cast<double>(repetitions.size());
  const double a = std::clamp(estimate + (1 + 3 * estimate) / n, 0.0, max);
  return std::sqrt((1 + a) / (1 - a));
}

/// The interval of the ratio of two medians whose logarithms lie within these distances, in 95 % of
/// all cases, below and above.
struct Distances {
  double down, up;
};
Interval interval_of(double ratio, const Distances& before, const Distances& after,
                     double launch_noise) {
  const double between = normal_95 * std::sqrt(2) * launch_noise;
  return {ratio * std::exp(-std::hypot(after.down, before.up, between)),
          ratio * std::exp(std::hypot(after.up, before.down, between))};
}

/// The interval of the ratio of two launches; nothing for fewer than six repetitions.
std::optional<Interval> interval_of_launches(const Repetitions& before, const Repetitions& after,
                                             double launch_noise) {
  const Summary a = summarize(before), b = summarize(after);
  if (!std::isfinite(a.ci_lo) || !std::isfinite(b.ci_lo)) return std::nullopt;
  const auto distances = [](const Summary& of, double wide) {
    return Distances{wide * std::log(of.median / of.ci_lo), wide * std::log(of.ci_hi / of.median)};
  };
  return interval_of(b.median / a.median, distances(a, widening(before)),
                     distances(b, widening(after)), launch_noise);
}

Change change_of(const std::optional<Interval>& ratio, double threshold) {
  if (!ratio) return Change::unclear;
  if (ratio->lo > 1 + threshold) return Change::slower;
  if (ratio->hi < 1 - threshold) return Change::faster;
  return ratio->lo >= 1 - threshold && ratio->hi <= 1 + threshold ? Change::same : Change::unclear;
}

/// The probability of a ratio as large as that of a slower comparison if the true one is 1 +
/// threshold. The lower end of its interval is at the 95 % quantile of t.
double p_value_of_slower(const Comparison& comparison, double threshold) {
  const double distance = std::log(comparison.ratio.value) - std::log1p(threshold);
  const double half = std::log(comparison.ratio.value / comparison.ratio.interval->lo);
  if (half == 0) return 0;  // all launches are equal
  return students_t_p_value(students_t_95(comparison.df) * distance / half, comparison.df) / 2;
}

}  // namespace

const char* word_of(Change change) {
  switch (change) {
    case Change::faster:
      return "faster";
    case Change::same:
      return "same";
    case Change::slower:
      return "slower";
    case Change::unclear:
      break;
  }
  return "unclear";
}

Comparison compare(std::span<const Repetitions> before, std::span<const Repetitions> after,
                   double threshold, double launch_noise) {
  expect(!before.empty() && !after.empty(), "a comparison has a launch on each side");
  expect(threshold > 0 && threshold < 1, "a threshold lies between 0 and 1");
  expect(launch_noise >= 0, "noise is not negative");
  const Study study = as_study(before, after);
  Comparison comparison;
  comparison.before = study.sizes[0].seconds.value;
  comparison.after = study.sizes[1].seconds.value;
  comparison.ratio = inverse(study.sizes[1].speedup);
  if (comparison.ratio.interval) {
    comparison.basis = Basis::launches;
    comparison.df = noise_of(study, std::array{1.0, -1.0}).df;
  }
  comparison.sampling_before = sampling_of(before);
  comparison.sampling_after = sampling_of(after);
  if (before.size() == 1 && after.size() == 1) {
    comparison.ratio.interval = interval_of_launches(before.front(), after.front(), launch_noise);
    if (comparison.ratio.interval) comparison.basis = Basis::repetitions;
  }
  if (comparison.is_enough()) {
    comparison.change = change_of(comparison.ratio.interval, threshold);
  }
  return comparison;
}

Comparison compare(const Estimate& before, const Estimate& after, double threshold,
                   double launch_noise) {
  Comparison comparison{.before = before.value,
                        .after = after.value,
                        .ratio = {.value = after.value / before.value},
                        .sampling_before = {.launches = 1},
                        .sampling_after = {.launches = 1}};
  for (const Estimate* side : {&before, &after}) {
    if (const auto reason = why_invalid({1, side->value, 1})) {
      throw UsageError("the comparison has " + *reason);
    }
    auto& sampling = side == &before ? comparison.sampling_before : comparison.sampling_after;
    if (!side->interval) sampling.missing_launches = sampling.missing_repetitions = 1;
  }
  if (!before.interval || !after.interval) return comparison;
  const auto distances = [](const Estimate& of) {
    return Distances{std::log(of.value / of.interval->lo), std::log(of.interval->hi / of.value)};
  };
  comparison.ratio.interval =
      interval_of(comparison.ratio.value, distances(before), distances(after), launch_noise);
  comparison.basis = Basis::repetitions;
  comparison.change = change_of(comparison.ratio.interval, threshold);
  return comparison;
}

std::vector<bool> slower_in_family(std::span<const Comparison> family, double threshold) {
  constexpr double level = 0.025;                      // of one side of a 95 % interval
  std::vector<std::pair<double, std::size_t>> slower;  // p value and place
  std::size_t judged = 0;
  for (std::size_t i = 0; i < family.size(); ++i) {
    judged += family[i].is_enough() ? 1 : 0;
    if (family[i].change != Change::slower) continue;
    slower.emplace_back(p_value_of_slower(family[i], threshold), i);
  }
  std::ranges::sort(slower);
  std::vector<bool> found(family.size());
  for (std::size_t i = 0; i < slower.size(); ++i) {
    const auto [p_value, place] = slower[i];
    // The first condition is about rounding: one comparison alone keeps its verdict.
    if (judged > 1 && p_value > level / static_cast<double>(judged - i)) break;
    found[place] = true;
  }
  return found;
}

Estimate inverse(const Estimate& estimate) {
  Estimate inverse{.value = 1 / estimate.value};
  inverse.standard_error = estimate.standard_error / (estimate.value * estimate.value);
  if (estimate.interval) {
    inverse.interval = {1 / estimate.interval->hi, 1 / estimate.interval->lo};
  }
  return inverse;
}

Result<std::size_t> launches_to_decide(const Comparison& times, double threshold) {
  using Count = Result<std::size_t>;
  if (times.change != Change::unclear) return Count::none("the verdict is clear");
  if (times.basis != Basis::launches) {
    return Count::none("the noise between launches is unknown");
  }
  const auto before = static_cast<double>(times.sampling_before.launches);
  const auto after = static_cast<double>(times.sampling_after.launches);
  const double error = times.ratio.standard_error / times.ratio.value;
  const double deviation = error / std::sqrt(1 / before + 1 / after);
  const double ratio = std::log(times.ratio.value);
  const double distance =
      std::min(std::abs(ratio - std::log1p(threshold)), std::abs(ratio - std::log1p(-threshold)));
  for (std::size_t launches = min_launches; launches <= max_launches_to_decide; ++launches) {
    const auto n = static_cast<double>(launches);
    const double half = students_t_95(2 * n - 2) * deviation * std::sqrt(2 / n);
    if (half < distance) return Count::of(launches);
  }
  return Count::none(
      fmt::format("more than {} launches per side would be needed", max_launches_to_decide));
}

Comparison of_rates(const Comparison& times, double work) {
  Comparison rates = times;
  rates.before = work / times.before;
  rates.after = work / times.after;
  rates.ratio = inverse(times.ratio);
  return rates;
}

}  // namespace shardstream::study
