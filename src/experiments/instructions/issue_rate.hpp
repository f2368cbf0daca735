// The rate at which multiprocessors issue instructions, as a roof.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include "experiments/gpu.hpp"

namespace shardstream::experiments::instructions {

struct IssueRate {
  Timing timing;  ///< of a launch
  Work work;
  double
      in_a_clock;  ///< instructions of warps in a clock of a multiprocessor, at the highest clock
};

/// Measures multiply-adds and logical instructions side by side, after a check of their results:
/// two units share them, so that the schedulers are the limit.
IssueRate measure_issue_rate(Bench& bench, Gpu& gpu);

}  // namespace shardstream::experiments::instructions
#endif  // SHARDSTREAM_HAS_CUDA
