// Weighted linear least squares over the launches of a study, and the test whether a law fits.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "study/sizes.hpp"
#include "study/statistics/estimate.hpp"

namespace shardstream::study {

/// A law that is linear in its parameters: the sum of parameter k times `basis(q)[k]` equals the
/// `quantity` of a launch (its time, its rate, ...). q is its number of ranks divided by that
/// of the smallest size. The quantity is positive and has the same relative noise as the time.
struct LinearLaw {
  int parameters = 0;  ///< 2 or 3
  std::array<double, 3> (*basis)(double q) = nullptr;
  double (*quantity)(const MeasuredLaunch&) = nullptr;
};

/// A law that is further off than this at any size never counts as fitting.
inline constexpr double max_error_of_fit = 0.1;

enum class FitVerdict {
  fits,          ///< the sizes deviate from the law no more than the launches' noise explains
  does_not_fit,  ///< the lack-of-fit test is below 5 %, and a size is more than 0.5 % off
  unclear,       ///< the launches scatter so much that the test does not reject a law that is
                 ///< more than max_error_of_fit off
  untested       ///< no more sizes than parameters, or one launch per size
};

/// The lack-of-fit F test: mean square of the sizes' means around the law, each in units of its
/// variance, with the degrees of freedom of launches around their size's mean (Draper and Smith,
/// Applied Regression Analysis, 3rd edition, section 2.1).
struct Fit {
  FitVerdict verdict = FitVerdict::untested;
  double f = std::nan("");
  double p_value = std::nan("");
};

/// (measured - law) / measured at one size, of the mean of its launches.
struct Residual {
  int ranks = 0;
  double relative = 0;
};

struct LinearFit {
  int parameters = 0;
  std::array<double, 3> values{};
  std::vector<Residual> residuals;
  Fit fit;
  /// The factor, 1 or more, by which variances grow since the law fits worse than the scatter
  /// explains: (lack + df) / (df + sizes - parameters). Here lack is the sum of squares of the
  /// sizes' means around the law, in units of their variance, and df = runs - sizes.
  double inflation = 1;

  /// An estimate for `value`, a function of the parameters with this gradient (delta method).
  Estimate estimate(double value, const std::array<double, 3>& gradient) const;
  /// The change of a function of the parameters with this gradient if the mean quantity of each
  /// size grows by its own amount.
  std::vector<double> changes(const std::array<double, 3>& gradient) const;
  /// An estimate for `value`, a function of the parameters with these changes(). With `launch_on`,
  /// it is for one new launch on that number of ranks, whose noise is added to the uncertainty of
  /// the law.
  Estimate estimate(double value, std::span<const double> changes,
                    std::optional<double> launch_on = {}) const;

 private:
  friend LinearFit fit_linear(const LinearLaw& law, const Study& study);

  std::vector<std::array<double, 3>> gains_;  ///< of the values, for each size as in changes()
  std::vector<double> launches_;              ///< of each size
  Scatter scatter_;
};

/// Fits `law` with weights 1/y^2, y being the mean of the quantity at the launch's size, divided by
/// the variance that Scatter fits to the size. Intervals use the variances of Scatter, multiplied
/// by `inflation`. There are intervals only if a size has several launches.
/// The study must have at least as many sizes as the law has parameters.
LinearFit fit_linear(const LinearLaw& law, const Study& study);

}  // namespace shardstream::study
