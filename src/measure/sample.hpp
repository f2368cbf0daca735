// The sampler of runs and ceilings: it synchronises all ranks, times their work, and decides when
// there are enough repetitions.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/log.hpp"
#include "core/options.hpp"
#include "measure/track.hpp"
#include "ranks/session.hpp"

namespace shardstream::measure {

/// The rows of [measure], without those of telemetry.
std::span<const OptionRow> measure_options();

/// The number of times that work is timed. Without an exact number of repetitions, work is repeated
/// until the 95 % interval of the median (core/statistics.hpp) lies within +-`precision` of the
/// median, but at most for `max_time` and `max_repetitions`. At least six repetitions are needed,
/// since fewer have no interval.
struct Sampling {
  static constexpr std::size_t max_repetitions = 1000;

  std::uint64_t warmup = 1;                       ///< untimed calls before the timed ones
  std::optional<std::uint64_t> repetitions = {};  ///< an exact number of timed calls, 1 or more
  double precision = 0.01;                        ///< a fraction of the median
  double max_time = 60;  ///< seconds since the first timed call began; checked after each call

  /// Whether the work is done exactly once. Only such runs write checkpoints.
  bool is_single() const { return warmup == 0 && repetitions == 1; }
  /// The number of calls, timed or not; 0 if it is unknown.
  std::uint64_t calls() const { return repetitions ? warmup + *repetitions : 0; }
};
/// The policy of measure.warmup, repeat, precision and max-time.
Sampling sampling(const Options& options);

/// How sampling ended.
enum class Convergence : std::uint8_t {
  fixed,  ///< after an exact number of repetitions
  converged,
  unconverged,  ///< max_time or max_repetitions came first
};
/// The value of the column `sampling` in /summary.
const char* word_of(Convergence convergence);

/// The stopping rule: how sampling ends now, or nothing if another repetition is needed. `seconds`
/// are the times of one or more repetitions, the first of which began `elapsed` seconds ago.
std::optional<Convergence> end_of_sampling(std::span<const double> seconds, double elapsed,
                                           const Sampling& policy);

struct Repetition {
  double seconds;             ///< time of the slowest rank since a common barrier
  std::vector<double> ranks;  ///< time of every rank
  std::chrono::steady_clock::time_point begin, end;  ///< this rank's
};

/// The same on every rank, except for the `begin` and `end` of each repetition.
struct Samples {
  std::vector<Repetition> repetitions;
  Convergence convergence = Convergence::fixed;

  std::vector<double> seconds() const;  ///< one time per repetition, in the order of execution
};

/// Calls `work` on every rank, each time after a barrier: first untimed for the warm-ups, then
/// timed. The argument of `work` tells whether the call is timed. `work` must return after this
/// rank's part is done, on the device too. If `recorder` is not null, it settles before each call
/// and at the end. `check` is called after each call of `work` and is not timed. Rank 0's clock
/// decides when all ranks stop. An exception of `work` is passed on, on this rank only. Collective.
Samples sample(const ranks::Session& session, const Sampling& policy,
               const std::function<void(bool timed)>& work, Recorder* recorder = nullptr,
               const std::function<void()>& check = {});

/// Logs one warning if sampling ended unconverged. For rank 0.
void warn_if_unconverged(const Samples& samples, const Sampling& policy, Log& log);

/// This rank's part of some work.
struct TimeInterval {
  std::chrono::steady_clock::time_point begin, end;

  double seconds() const { return std::chrono::duration<double>(end - begin).count(); }
};

/// Times one call of `work`, which begins after a barrier. An exception of `work` is passed on, on
/// this rank only. Collective.
TimeInterval time_in_step(const ranks::Session& session, const std::function<void()>& work);

/// Calls `work` at least once, until `seconds` have passed since a barrier. Returns this rank's
/// time per call in seconds. `work` must not be collective, since the number of calls differs
/// between ranks. Collective.
double repeat_for(const ranks::Session& session, double seconds, const std::function<void()>& work);

}  // namespace shardstream::measure
