// Amdahl's law for strong studies: T = a + b/p.
#pragma once

#include "study/laws/least_squares.hpp"

namespace shardstream::study {

/// The fitted law's expectation for one new launch at another number of ranks. The intervals
/// contain the uncertainty of the law and the noise of a launch there (Scatter::of_launch()).
struct AmdahlPrediction {
  int ranks = 0;
  Estimate seconds;
  Estimate speedup;     ///< as that of a Size: p0 T(p0) / T, with the measured T(p0)
  Estimate efficiency;  ///< speed-up / ranks
};

/// Amdahl, "Validity of the single processor approach", AFIPS 1967, as T = a + b/q with q = p/p0
/// is the number of ranks relative to the smallest size p0. So T(p0) is one point among the others,
/// and the law refers to the size that speed-ups and the Karp-Flatt metric refer to.
struct Amdahl {
  Estimate serial_seconds;    ///< a
  Estimate parallel_seconds;  ///< b, on p0 ranks
  /// s = a / (a + b), a share of the run on p0 ranks. Never clamped: s < 0 means superlinear
  /// speed-up.
  Estimate serial_share;
  LinearFit law;               ///< with residuals and the verdict whether the law fits
  int reference = 1;           ///< p0
  Estimate reference_seconds;  ///< measured on p0 ranks

  /// At `ranks` >= 1. No value if the law gives no positive time there.
  Result<AmdahlPrediction> predict(int ranks) const;
  /// The time of one new launch on `ranks` ranks, which need not be a whole number.
  Estimate seconds_of_launch(double ranks) const;
  /// The measured time of p0 ranks, scaled to `ranks` ranks without any loss.
  double ideal_seconds(double ranks) const;
};

/// Least squares with weights 1/T^2, intervals by the delta method. No value for a weak study or
/// for fewer than two sizes. The intervals assume that the law holds: see `law.fit`.
Result<Amdahl> fit_amdahl(const Study& study);

}  // namespace shardstream::study
