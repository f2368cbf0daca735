// The measurements of a study at each number of ranks: time, speed-up, efficiency and Karp-Flatt
// metric, with intervals over launches.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "study/launches.hpp"
#include "study/statistics/estimate.hpp"
#include "study/statistics/scatter.hpp"

namespace shardstream::study {

/// A test below this level has found a difference.
inline constexpr double test_level = 0.05;

/// A smaller relative difference is irrelevant, even if launches scatter so little that a test
/// finds it significant.
inline constexpr double min_relevant = 0.005;

/// Whether counts of work are equal but for rounding.
bool same_work(double a, double b);

/// All launches at one number of ranks.
struct Size {
  int ranks = 0;
  std::size_t launches = 0;
  double work = 0;       ///< of one repetition
  double median = 0;     ///< of the launches' times, in seconds
  Estimate seconds;      ///< geometric mean of the launches' times; laws and ratios use this one
  Noise noise;           ///< of a launch, behind this size's intervals; see Scatter
  bool noisier = false;  ///< marked: its launches scatter three times as much as the others'
  /// Strong: S = p0 T0/T. Weak: S = p0 (W/T) / (W0/T0). p0 is the anchor. At the anchor S = p0 by
  /// definition and has no interval.
  Estimate speedup;
  Estimate efficiency;  ///< S/p
  /// Karp and Flatt, "Measuring parallel processor performance", CACM 33 (1990):
  /// e = (1/S - 1/p) / (1 - 1/p), with S and p relative to the anchor. Strong studies only, above
  /// the anchor.
  std::optional<Estimate> karp_flatt;
};

/// A study's launches and its sizes in ascending order.
struct Study {
  Mode mode = Mode::strong;
  std::vector<MeasuredLaunch> launches;  ///< as given, in start order
  std::vector<Size> sizes;
  int anchor = 1;   ///< the smallest number of ranks: speed-ups and laws refer to it
  Scatter scatter;  ///< of the launches at each size, in the order of `sizes`

  /// Whether intervals can be stated: a size has several launches.
  bool has_intervals() const { return scatter.pooled().df > 0; }
};

/// Tabulates launches, given in start order.
///
/// Intervals are Student's t on the logarithms of times, with the variances and degrees of freedom
/// of Scatter. For a speed-up it is the interval of the log of the ratio. With one launch a size
/// there are no intervals.
///
/// Throws UsageError without launches, for an invalid launch (ask why_invalid() first), if launches
/// of one size counted different work, or if a strong study's sizes did.
Study tabulate(Mode mode, std::vector<MeasuredLaunch> launches, Trend trend = Trend::possible);

/// The noise of a sum of `factors[i]` times the mean log time of size i.
Noise noise_of(const Study& study, std::span<const double> factors);

/// Numbers of ranks with superlinear speed-up: the lower bound of the efficiency is above 1.
std::vector<int> superlinear(const Study& study);

}  // namespace shardstream::study
