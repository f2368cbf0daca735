// The test whether launches became slower or faster during a study.
#pragma once

#include "study/sizes.hpp"

namespace shardstream::study {

struct Drift {
  Estimate per_launch;  ///< relative change of the time from one launch to the next: 0.001 is 0.1 %
  double total = 0;     ///< relative change from the first launch to the last
  double p_value = 1;   ///< of Student's t test against no drift
  bool significant = false;  ///< p_value < 0.05, and `total` beyond 0.5 %
};

/// The slope of log time against start order, with each size's own mean: times and start positions
/// are both centred within their size, so that an unbalanced order does not look like drift.
/// df = runs - sizes - 1. No value if that is not positive, or if no size was started twice.
Result<Drift> find_drift(const Study& study);

}  // namespace shardstream::study
