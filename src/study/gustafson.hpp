// Gustafson's law for weak studies: S = p - s'(p - 1).
#pragma once

#include "study/least_squares.hpp"

namespace shardstream::study {

/// Gustafson, "Reevaluating Amdahl's law", CACM 31 (1988). s' is a share of the parallel run; do
/// not mix it with Amdahl's s. From counted work, a constant serial time is invisible in S: s'
/// shows the growth of overhead.
struct Gustafson {
  Estimate serial_share;  ///< s', never clamped
  /// S(measured) - S(law), divided by S(measured), at each size
  std::vector<Residual> residuals;
  Fit fit;        ///< whether the rate W/T grows linearly with p, as the law says
  Noise noise;    ///< of a launch, pooled over the sizes that are not marked
  double df = 0;  ///< degrees of freedom of s'

  /// The efficiency that the law expects of one new launch at `ranks` >= 1: S/p. The interval
  /// contains the uncertainty of s' and the noise of the launch, which is `own` if it is on a
  /// marked size (see own_noise()). Student's t has the smaller degrees of freedom of the two.
  Estimate predict_efficiency(int ranks, const Noise& own = {}) const;
};

/// s' = sum (p-1)(p-S) / sum (p-1)^2. The interval is the delta method's, and takes into account
/// that all speed-ups share the time at p = 1; df = runs - sizes. No value for a strong study, for
/// fewer than two sizes, or without p = 1.
Result<Gustafson> fit_gustafson(const Study& study);

/// The share of the run on one rank, s = s' / (s' + p (1 - s')), that the share s' of a run on
/// `ranks` ranks corresponds to.
double share_of_one_rank(double share, int ranks);

}  // namespace shardstream::study
