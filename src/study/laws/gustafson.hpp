// Gustafson's law for weak studies: S = p - s'(p - 1).
#pragma once

#include "study/laws/least_squares.hpp"

namespace shardstream::study {

/// Gustafson, "Reevaluating Amdahl's law", CACM 31 (1988), relative to the smallest size p0: with
/// q = p / p0, S / p0 = q - s'(q - 1). s' is a share of the parallel run; do not mix it with
/// Amdahl's s. From counted work, a constant serial time is invisible in S: s' shows the growth of
/// overhead.
struct Gustafson {
  Estimate serial_share;  ///< s', never clamped
  /// S(measured) - S(law), divided by S(measured), at each size
  std::vector<Residual> residuals;
  Fit fit;            ///< whether the rate W/T grows linearly with p, as the law says
  int reference = 1;  ///< p0

  /// The efficiency S/p that the law expects of one new launch on `ranks` >= p0. The interval
  /// contains the uncertainty of s' and the noise of a launch there (Scatter::of_launch()).
  Estimate predict_efficiency(double ranks) const;

 private:
  friend Result<Gustafson> fit_gustafson(const Study& study);

  std::vector<double> changes_;   ///< of s' if the log time of a size grows
  std::vector<double> launches_;  ///< of each size
  Scatter scatter_;
  double inflation_ = 1;  ///< of LinearFit, for the line W/T
};

/// s' = sum (q-1)(q - S/p0) / sum (q-1)^2. The interval is the delta method's, and takes into
/// account that all speed-ups share the time of the smallest size. No value for a strong study or
/// for fewer than two sizes.
Result<Gustafson> fit_gustafson(const Study& study);

/// The share of the run on p0 ranks, s = s' / (s' + q (1 - s')), that the share s' of a run on q
/// times as many ranks corresponds to.
double share_of_reference(double share, double q);

}  // namespace shardstream::study
