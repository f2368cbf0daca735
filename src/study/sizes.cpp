#include "study/sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/error.hpp"
#include "core/statistics.hpp"
#include "core/text.hpp"
#include "study/statistics/distributions.hpp"

namespace shardstream::study {
namespace {

std::map<int, std::vector<MeasuredLaunch>> by_ranks(std::span<const MeasuredLaunch> launches) {
  std::map<int, std::vector<MeasuredLaunch>> groups;
  for (const MeasuredLaunch& launch : launches) {
    if (auto reason = why_invalid(launch)) throw UsageError("the study has " + *reason);
    groups[launch.ranks].push_back(launch);
  }
  return groups;
}

void check_work(Mode mode, const std::map<int, std::vector<MeasuredLaunch>>& groups) {
  const double first = groups.begin()->second.front().work;
  for (const auto& [ranks, launches] : groups) {
    const double expected = mode == Mode::strong ? first : launches.front().work;
    for (const MeasuredLaunch& launch : launches) {
      if (same_work(launch.work, expected)) continue;
      throw UsageError(fmt::format("a launch on {} counted a work of {} instead of {}: {}",
                                   counted(ranks, "rank"), launch.work, expected,
                                   mode == Mode::strong
                                       ? "the work of a strong study is the same at every size"
                                       : "launches of one size do the same work"));
    }
  }
}

/// One size without intervals; `noise` is the scatter of its own launches.
Size measured(int ranks, std::span<const MeasuredLaunch> launches) {
  std::vector<double> seconds;
  double sum = 0;
  for (const MeasuredLaunch& launch : launches) {
    seconds.push_back(launch.seconds);
    sum += std::log(launch.seconds);
  }
  const auto n = static_cast<double>(launches.size());
  double squares = 0;
  for (const double value : seconds) squares += std::pow(std::log(value) - sum / n, 2);
  Size size;
  size.ranks = ranks;
  size.launches = launches.size();
  size.work = launches.front().work;
  size.median = median(std::move(seconds));
  size.seconds.value = std::exp(sum / n);
  if (n > 1) size.noise = {squares / (n - 1), n - 1};
  return size;
}

/// exp of a log estimate with its interval.
Estimate from_log(double value, const Noise& noise) {
  Estimate estimate{.value = value};
  if (noise.df == 0) return estimate;
  const double error = std::sqrt(noise.variance), t = students_t_95(noise.df);
  estimate.standard_error = value * error;
  estimate.interval = {value * std::exp(-t * error), value * std::exp(t * error)};
  return estimate;
}

Estimate scaled(Estimate estimate, double factor) {
  estimate.value *= factor;
  estimate.standard_error *= factor;
  if (estimate.interval) {
    estimate.interval = {estimate.interval->lo * factor, estimate.interval->hi * factor};
  }
  return estimate;
}

/// From the speed-up and number of ranks relative to the anchor. Falls as the speed-up grows.
Estimate karp_flatt(const Estimate& speedup, double ranks) {
  const auto metric = [&](double s) { return (1 / s - 1 / ranks) / (1 - 1 / ranks); };
  Estimate estimate{.value = metric(speedup.value)};
  estimate.standard_error =
      speedup.standard_error / (speedup.value * speedup.value * (1 - 1 / ranks));
  if (speedup.interval)
    estimate.interval = {metric(speedup.interval->hi), metric(speedup.interval->lo)};
  return estimate;
}

void compare_with_anchor(const Study& study, std::size_t index, Size& size) {
  const Size& anchor = study.sizes.front();
  const double p0 = anchor.ranks;
  double ratio = anchor.seconds.value / size.seconds.value;
  if (study.mode == Mode::weak) ratio *= size.work / anchor.work;
  Estimate relative{.value = ratio};  // at the anchor itself: 1, without an interval
  if (index > 0) {
    std::vector<double> factors(study.sizes.size());
    factors.front() = 1;
    factors[index] = -1;
    relative = from_log(ratio, noise_of(study, factors));
    if (study.mode == Mode::strong) size.karp_flatt = karp_flatt(relative, size.ranks / p0);
  }
  size.speedup = scaled(relative, p0);
  size.efficiency = scaled(relative, p0 / size.ranks);
}

}  // namespace

bool same_work(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(a, b);
}

Noise noise_of(const Study& study, std::span<const double> factors) {
  std::vector<double> weights;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    weights.push_back(factors[i] * factors[i] / static_cast<double>(study.sizes[i].launches));
  }
  return study.scatter.of(weights);
}

Study tabulate(Mode mode, std::vector<MeasuredLaunch> launches, Trend trend) {
  if (launches.empty()) throw UsageError("a study needs at least one launch that succeeded");
  const auto groups = by_ranks(launches);
  check_work(mode, groups);
  Study study;
  study.mode = mode;
  study.launches = std::move(launches);
  study.anchor = groups.begin()->first;
  for (const auto& [ranks, group] : groups) study.sizes.push_back(measured(ranks, group));
  std::vector<SizeNoise> noises;
  for (const Size& size : study.sizes) {
    noises.push_back({static_cast<double>(size.ranks), size.noise});
  }
  study.scatter = Scatter(noises, trend);
  for (std::size_t i = 0; i < study.sizes.size(); ++i) {
    Size& size = study.sizes[i];
    size.noise = study.scatter.at(i);
    size.noisier = study.scatter.is_marked(i);
    const Noise of_mean{size.noise.variance / static_cast<double>(size.launches), size.noise.df};
    size.seconds = from_log(size.seconds.value, of_mean);
  }
  for (std::size_t i = 0; i < study.sizes.size(); ++i) {
    compare_with_anchor(study, i, study.sizes[i]);
  }
  return study;
}

std::vector<int> superlinear(const Study& study) {
  std::vector<int> ranks;
  for (const Size& size : study.sizes) {
    if (size.efficiency.interval && size.efficiency.interval->lo > 1) ranks.push_back(size.ranks);
  }
  return ranks;
}

}  // namespace shardstream::study
