// Amdahl's law for strong studies: T = a + b/p.
#pragma once

#include "study/least_squares.hpp"

namespace shardstream::study {

/// The fitted law's expectation for one new launch at another number of ranks. The intervals
/// contain the uncertainty of the law and the noise of a launch, which is pooled over the sizes
/// that are not marked.
struct AmdahlPrediction {
  int ranks = 0;
  Estimate seconds;
  Estimate speedup;     ///< against the law's T(1)
  Estimate efficiency;  ///< speed-up / ranks
};

/// Amdahl, "Validity of the single processor approach", AFIPS 1967, as T = a + b/p, so that the
/// measured T(1) is one point among the others.
struct Amdahl {
  Estimate serial_seconds;    ///< a
  Estimate parallel_seconds;  ///< b, on one rank
  /// s = a / (a + b), a share of the run on one rank. Never clamped: s < 0 means superlinear
  /// speed-up.
  Estimate serial_share;
  bool extrapolated_to_one = false;  ///< the study has no run on one rank: a + b is extrapolated
  LinearFit law;                     ///< with residuals and the verdict whether the law fits

  /// At `ranks` >= 1. No value if the law gives no positive time there.
  Result<AmdahlPrediction> predict(int ranks) const;
  /// The time of one new launch on `ranks` ranks, which need not be a whole number. `own` is that
  /// of LinearFit::estimate_launch().
  Estimate seconds_of_launch(double ranks, const Noise& own = {}) const;
};

/// Least squares with weights 1/T^2, intervals by the delta method. No value for a weak study or
/// for fewer than two sizes. The intervals assume that the law holds: see `law.fit`.
Result<Amdahl> fit_amdahl(const Study& study);

}  // namespace shardstream::study
