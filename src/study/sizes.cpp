#include "study/sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/error.hpp"
#include "core/statistics.hpp"
#include "core/text.hpp"
#include "study/distributions.hpp"

namespace shardstream::study {
namespace {

/// Counted work of equal runs may differ by rounding alone.
bool same_work(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(a, b);
}

std::map<int, std::vector<Launch>> by_ranks(std::span<const Launch> launches) {
  std::map<int, std::vector<Launch>> groups;
  for (const Launch& launch : launches) {
    if (auto reason = why_invalid(launch)) throw UsageError("the study has " + *reason);
    groups[launch.ranks].push_back(launch);
  }
  return groups;
}

void check_work(Mode mode, const std::map<int, std::vector<Launch>>& groups) {
  const double first = groups.begin()->second.front().work;
  for (const auto& [ranks, launches] : groups) {
    const double expected = mode == Mode::strong ? first : launches.front().work;
    for (const Launch& launch : launches) {
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
Size measured(int ranks, std::span<const Launch> launches) {
  std::vector<double> seconds;
  double sum = 0;
  for (const Launch& launch : launches) {
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
  size.median = summarize(std::move(seconds)).median;
  size.seconds.value = std::exp(sum / n);
  if (n > 1) size.noise = {squares / (n - 1), n - 1};
  return size;
}

/// The pooled variance of the sizes that `use` accepts.
template <typename Use>
Noise pooled(std::span<const Size> sizes, Use use) {
  double squares = 0, df = 0;
  for (const Size& size : sizes) {
    if (!use(size)) continue;
    squares += size.noise.df * size.noise.variance;
    df += size.noise.df;
  }
  return df > 0 ? Noise{squares / df, df} : Noise{};
}

void mark_noisier(std::span<Size> sizes) {
  for (Size& size : sizes) {
    Noise others = pooled(sizes, [&](const Size& other) { return &other != &size; });
    if (size.noise.df == 0 || others.df == 0) continue;
    others.variance = std::max(others.variance, min_scatter * min_scatter);
    const double f = size.noise.variance / others.variance;
    size.noisier = f >= 9 && fisher_f_p_value(f, size.noise.df, others.df) <
                                 0.01 / static_cast<double>(sizes.size());
  }
}

/// exp of a log estimate with its interval.
Estimate from_log(double value, const Noise& noise, double t) {
  Estimate estimate{.value = value};
  if (noise.df == 0) return estimate;
  const double error = std::sqrt(noise.variance);
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

/// Student's t, calculated once for the pooled degrees of freedom.
class Quantile {
 public:
  explicit Quantile(double df) : df_(df), t_(df > 0 ? students_t_95(df) : 0) {}
  double of(double df) const { return df == df_ || df == 0 ? t_ : students_t_95(df); }

 private:
  double df_, t_;
};

void compare_with_anchor(const Study& study, Size& size, const Quantile& t) {
  const Size& anchor = study.sizes.front();
  const double p0 = anchor.ranks;
  double ratio = anchor.seconds.value / size.seconds.value;
  if (study.mode == Mode::weak) ratio *= size.work / anchor.work;
  Estimate relative{.value = ratio};  // at the anchor itself: 1, without an interval
  if (&size != &anchor) {
    const LogTerm terms[] = {{&anchor, 1}, {&size, -1}};
    const Noise noise = noise_of(study, terms);
    relative = from_log(ratio, noise, t.of(noise.df));
    if (study.mode == Mode::strong) size.karp_flatt = karp_flatt(relative, size.ranks / p0);
  }
  size.speedup = scaled(relative, p0);
  size.efficiency = scaled(relative, p0 / size.ranks);
}

}  // namespace

Noise own_noise(const Study& study, int ranks) {
  const auto size = std::ranges::find(study.sizes, ranks, &Size::ranks);
  return size != study.sizes.end() && size->noisier ? size->noise : Noise{};
}

Noise noise_of(const Study& study, std::span<const LogTerm> terms) {
  double shared = 0, own = 0, own_squares_by_df = 0;
  for (const auto& [size, factor] : terms) {
    const double part =
        factor * factor * size->noise.variance / static_cast<double>(size->launches);
    if (size->noisier) {
      own += part;
      own_squares_by_df += part * part / size->noise.df;
    } else {
      shared += part;
    }
  }
  if (own == 0) return study.noise.df > 0 ? Noise{shared, study.noise.df} : Noise{};
  const double total = shared + own;
  // A pool without its own degrees of freedom adds nothing: sizes are marked against a known pool.
  return {total, total * total / (own_squares_by_df + shared * shared / study.noise.df)};
}

Study tabulate(Mode mode, std::vector<Launch> launches) {
  if (launches.empty()) throw UsageError("a study needs at least one launch that succeeded");
  const auto groups = by_ranks(launches);
  check_work(mode, groups);
  Study study;
  study.mode = mode;
  study.launches = std::move(launches);
  study.anchor = groups.begin()->first;
  for (const auto& [ranks, group] : groups) study.sizes.push_back(measured(ranks, group));
  mark_noisier(study.sizes);
  study.noise = pooled(study.sizes, [](const Size& size) { return !size.noisier; });
  const Quantile t(study.noise.df);
  for (Size& size : study.sizes) {
    if (!size.noisier) size.noise = study.noise;
    const LogTerm alone[] = {{&size, 1}};
    const Noise noise = noise_of(study, alone);
    size.seconds = from_log(size.seconds.value, noise, t.of(noise.df));
  }
  for (Size& size : study.sizes) compare_with_anchor(study, size, t);
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
