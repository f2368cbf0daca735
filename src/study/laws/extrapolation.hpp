// The prediction of a fitted law beyond the largest size of a study, if the law may be used there.
#pragma once

#include <optional>

#include "study/laws/amdahl.hpp"
#include "study/laws/gustafson.hpp"

namespace shardstream::study {

/// One new launch, as a fitted law expects it. Intervals contain the uncertainty of the law and the
/// noise of a launch. Impossible numbers are moved: ends below zero to zero, and values and ends
/// above an efficiency of 1 to 1. If the serial share is above 1, the values are those of a share
/// of 1: time and speed-up of the smallest size.
struct Extrapolation {
  int ranks = 0;
  std::optional<Estimate> seconds = {}, speedup = {};  ///< of strong studies
  Estimate efficiency = {};
  /// In strong studies, the speed-up on infinitely many ranks: p0 T(p0) / a with the measured
  /// T(p0), or 1/s if the law is exact on p0 = 1 rank. At least p0, the speed-up of the smallest
  /// size. None if the serial part a may be zero.
  std::optional<double> max_speedup = {};
};

/// No value if the law does not fit, if its serial share is not between 0 and 1, or if it gives no
/// positive time or rate on `ranks` ranks. A share just outside stands for 0 or 1 if that changes
/// the largest size by no more than min_relevant, or no more than scatter explains and
/// max_error_of_fit.
Result<Extrapolation> extrapolate(const Amdahl& law, int ranks);
Result<Extrapolation> extrapolate(const Gustafson& law, int ranks);

}  // namespace shardstream::study
