// Timed repetitions of the same work on all ranks.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <vector>

#include "core/options.hpp"
#include "launch/session.hpp"
#include "measure/recorder.hpp"

namespace shardstream::measure {

/// The rows of [measure]: warmup, repeat, timeline.
std::span<const OptionRow> measure_options();

struct Repetition {
  double seconds;             ///< the slowest rank's time from a common barrier
  std::vector<double> ranks;  ///< every rank's
  std::chrono::steady_clock::time_point begin, end;  ///< this rank's
};

/// Calls `work` measure.warmup times untimed and measure.repeat times timed, each after a barrier;
/// `work` is told which, and returns when this rank's part is done, on the device too. The recorder
/// settles between them. Called by all ranks.
std::vector<Repetition> repeat(const Options& options, const launch::Session& session,
                               Recorder& recorder, const std::function<void(bool timed)>& work);

}  // namespace shardstream::measure
