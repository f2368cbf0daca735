// Compares launches before and after a change: whether a program became slower or faster.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "core/statistics.hpp"
#include "study/statistics/estimate.hpp"

namespace shardstream::study {

/// The repetitions of one launch: times, in any unit; positive and finite.
using Repetitions = std::vector<double>;

enum class Change {
  faster,  ///< the interval of the ratio lies below 1 - threshold
  same,    ///< within 1 - threshold .. 1 + threshold
  slower,  ///< above 1 + threshold
  unclear  ///< none of these, or too few samples
};

/// "faster", "same", "slower" or "unclear".
const char* word_of(Change change);

/// The noise that the interval of a ratio contains.
enum class Basis {
  launches,     ///< the noise between launches and between repetitions
  repetitions,  ///< the noise between repetitions and an assumed one between launches, since each
                ///< side has one launch
  nothing       ///< there is no interval
};

/// The number of launches, or of repetitions of each launch, that each side needs for a verdict.
inline constexpr std::size_t min_launches = 3, min_repetitions = min_samples_of_interval;

/// The samples of one side. For a verdict it needs `missing_launches` more launches, or
/// `missing_repetitions` more repetitions in each launch. Both are 0 if it has enough.
struct SideSamples {
  std::size_t launches = 0;
  std::size_t repetitions = 0;  ///< of the launch with the fewest
  std::size_t missing_launches = 0, missing_repetitions = 0;

  bool is_enough() const { return missing_launches == 0; }
};

/// The standard deviation between launches of one program, relative to their time, that a
/// comparison of one launch a side assumes: most launches scatter less, some scatter more.
inline constexpr double default_launch_noise = 0.05;
/// The largest change that does not count, relative to the time.
inline constexpr double default_threshold = 0.02;

struct Comparison {
  double before = 0, after = 0;  ///< geometric means of the launches' medians
  Estimate ratio;                ///< after / before
  Change change = Change::unclear;
  Basis basis = Basis::nothing;
  /// The degrees of freedom of Student's t behind the interval; infinite if the noise between
  /// launches is assumed.
  double df = std::numeric_limits<double>::infinity();
  SideSamples sampling_before, sampling_after;

  /// Whether both sides have enough samples for a verdict.
  bool is_enough() const { return sampling_before.is_enough() && sampling_after.is_enough(); }
};

/// Compares two sets of launches, each with one or more launches of one or more repetitions.
/// `threshold` is above 0 and below 1; 0.02 is 2 %.
///
/// A launch counts once, as the median of its repetitions: repetitions of one process are
/// correlated. With a side of several launches the 95 % interval is Student's t on the difference
/// of the means of log medians, with the variances and degrees of freedom of a Scatter without a
/// trend, so that the sides may differ in their scatter and in their number of launches.
///
/// With one launch a side, the interval combines those of the two medians, which are order
/// statistics of the repetitions (core/statistics.hpp), and the noise between launches, on the log
/// scale: with medians m and intervals l..u, log r = log m2 - log m1 lies between
///   log r - sqrt((c2 log(m2 / l2))^2 + (c1 log(u1 / m1))^2 + n^2) and
///   log r + sqrt((c2 log(u2 / m2))^2 + (c1 log(m1 / l1))^2 + n^2)
/// (Zou and Donner, "Construction of confidence limits about effect measures: a general approach",
/// Statistics in Medicine 27, 2008). n = 1.96 sqrt(2) `launch_noise` is the difference that two
/// launches of equal programs do not exceed in 95 % of all cases. c = sqrt((1 + a) / (1 - a)), at
/// least 1, widens the interval of a median for the lag-1 autocorrelation a of its repetitions,
/// whose estimate from k of them is too small by (1 + 3 a) / k (Marriott and Pope, Biometrika 41,
/// 1954). There is no interval for fewer than six repetitions.
///
/// The verdict is unclear if a side has fewer than min_launches launches and fewer than
/// min_repetitions repetitions, whatever the interval. Throws UsageError if a value is not positive
/// and finite, and ContractError without launches or repetitions.
Comparison compare(std::span<const Repetitions> before, std::span<const Repetitions> after,
                   double threshold, double launch_noise = default_launch_noise);

/// The same for two medians of one launch each, which have the intervals of their repetitions, in
/// place of those. `missing_repetitions` is 1 if an interval is missing, so that the verdict is
/// unclear. Throws UsageError if a value is not positive and finite.
Comparison compare(const Estimate& before, const Estimate& after, double threshold,
                   double launch_noise = default_launch_noise);

/// Whether each of several comparisons is slower if they are judged together. Each verdict alone
/// calls a ratio of at most 1 + `threshold` slower in 2.5 % of all cases, so that one of many does
/// by chance. Holm's step-down method keeps the probability that any of the family does at 2.5 %
/// (Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
/// Statistics 6, 1979). Comparisons without enough samples do not count. One comparison alone is
/// slower if its own verdict is.
std::vector<bool> slower_in_family(std::span<const Comparison> family, double threshold);

/// The reciprocal, with its interval and standard error: the rate of a time.
Estimate inverse(const Estimate& estimate);

/// More launches per side are not worth their time.
inline constexpr std::size_t max_launches_to_decide = 50;

/// The number of launches per side that would give an unclear comparison of times a verdict, if the
/// ratio r and the scatter of the launches stay the same: the smallest n with
///   t(2n - 2) s sqrt(2 / n) < min(|log r - log(1 + threshold)|, |log r - log(1 - threshold)|),
/// where t is Student's t for 95 % and s^2 = e^2 / (1 / n1 + 1 / n2) is the variance of a launch's
/// log median by the standard error e of log r over n1 and n2 launches. There is no number if the
/// verdict is clear, if the interval is not over launches, or above max_launches_to_decide.
Result<std::size_t> launches_to_decide(const Comparison& times, double threshold);

/// The comparison of the rates work / time; the verdict stays that of the times.
Comparison of_rates(const Comparison& times, double work);

}  // namespace shardstream::study
