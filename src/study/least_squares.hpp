// Weighted linear least squares over the launches of a study, and the test whether a law fits.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <vector>

#include "study/estimate.hpp"
#include "study/sizes.hpp"

namespace shardstream::study {

/// A law that is linear in its parameters: the sum of parameter k times `basis(p)[k]` equals the
/// `quantity` of a launch (its time, its rate, ...). The quantity is positive and has the same
/// relative noise as the time.
struct LinearLaw {
  int parameters = 0;  ///< 2 or 3
  std::array<double, 3> (*basis)(double ranks) = nullptr;
  double (*quantity)(const Launch&) = nullptr;
};

enum class Verdict {
  fits,          ///< the sizes deviate from the law no more than the launches' noise explains
  does_not_fit,  ///< the lack-of-fit test is below 5 %, and a size is more than 0.5 % off
  cannot_tell    ///< no more sizes than parameters, or one launch per size
};

/// The lack-of-fit F test: mean square of the sizes' means around the law against the mean square
/// of launches around their size's mean (Draper and Smith, Applied Regression Analysis, 3rd
/// edition, section 2.1).
struct Fit {
  Verdict verdict = Verdict::cannot_tell;
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
  std::array<std::array<double, 3>, 3> covariance{};  ///< of the values; 0 without an interval
  double variance = 0;  ///< of a launch's relative residual, with df degrees of freedom
  double df = 0;        ///< runs - parameters; 0 if no interval can be stated
  double t = 0;         ///< Student's t for 95 %
  std::vector<Residual> residuals;
  Fit fit;

  /// An estimate for `value`, a function of the parameters with this gradient (delta method).
  Estimate estimate(double value, const std::array<double, 3>& gradient) const;
  /// The same for `value` in one new launch, whose noise is added to the uncertainty of the law.
  /// The launch scatters like the residuals or, if it is on a marked size, with that size's `own`
  /// noise (see own_noise()). Student's t then has the degrees of freedom of the law or of the
  /// size, whichever are fewer.
  Estimate estimate_launch(double value, const std::array<double, 3>& gradient,
                           const Noise& own = {}) const;

 private:
  double variance_of(const std::array<double, 3>& gradient) const;
};

/// Fits `law` with weights 1/y^2, y being the mean of the quantity at the launch's size; marked
/// sizes weigh less by the ratio of variances. The residual variance is taken over launches, with
/// df = runs - parameters, and states intervals only if a size has several launches.
/// The study must have at least as many sizes as the law has parameters.
LinearFit fit_linear(const LinearLaw& law, const Study& study);

}  // namespace shardstream::study
