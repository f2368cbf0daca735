// The measurements of a study at each number of ranks: time, speed-up, efficiency and Karp-Flatt
// metric, with intervals over launches.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "study/estimate.hpp"
#include "study/launches.hpp"

namespace shardstream::study {

/// Variance of the logarithm of a launch's time (its square root is the relative scatter, 0.01 for
/// 1 %), and its degrees of freedom. With df = 0 the noise is unknown and the variance is 0.
struct Noise {
  double variance = 0;
  double df = 0;
};

/// Resolution of relative times. Smaller scatter is rounding, not noise.
inline constexpr double min_scatter = 1e-12;

/// A test below this level has found a difference.
inline constexpr double test_level = 0.05;

/// A smaller relative difference is irrelevant, even if launches scatter so little that a test
/// finds it significant.
inline constexpr double min_relevant = 0.005;

/// All launches at one number of ranks.
struct Size {
  int ranks = 0;
  std::size_t launches = 0;
  double work = 0;       ///< of one repetition
  double median = 0;     ///< of the launches' times, in seconds
  Estimate seconds;      ///< geometric mean of the launches' times; laws and ratios use this one
  Noise noise;           ///< behind this size's intervals: its own if marked, else the study's
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
  std::vector<Launch> launches;  ///< as given, in start order
  std::vector<Size> sizes;
  int anchor = 1;  ///< the smallest number of ranks; speed-ups refer to it
  Noise noise;     ///< pooled over all sizes but marked ones; df = runs - sizes
};

/// Tabulates launches, given in start order.
///
/// Intervals are Student's t on the logarithms of times, with the variance pooled over all sizes.
/// For a speed-up it is the interval of the log of the ratio. A size is marked, and its own
/// variance used, if its launches' standard deviation is at least three times the others' and the F
/// test of the two variances is below 1 % (shared between the sizes): the factor alone would mark
/// every fifth study of two sizes and three launches with equal noise. If a ratio involves a marked
/// size, its degrees of freedom are Welch's. With one launch a size there are no intervals.
///
/// Throws UsageError without launches, for an invalid launch (ask why_invalid() first), if launches
/// of one size counted different work, or if a strong study's sizes did.
Study tabulate(Mode mode, std::vector<Launch> launches);

/// The noise of a launch on `ranks` ranks if the study has marked that size; else df = 0.
Noise own_noise(const Study& study, int ranks);

/// A size's weight in a sum of log times.
struct LogTerm {
  const Size* size;
  double factor;
};

/// The noise of the sum of `factor` times the mean log time of each of the study's sizes: its
/// variance and its degrees of freedom (Welch-Satterthwaite if a size is marked).
Noise noise_of(const Study& study, std::span<const LogTerm> terms);

/// Numbers of ranks with superlinear speed-up: the lower bound of the efficiency is above 1.
std::vector<int> superlinear(const Study& study);

}  // namespace shardstream::study
