// The one sampler: it puts all ranks in step, reads the clock around their work, and decides when
// there are enough repetitions. Runs use it, and so do the ceilings.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/log.hpp"
#include "core/options.hpp"
#include "launch/session.hpp"
#include "measure/track.hpp"

namespace shardstream::measure {

/// The rows of [measure]: warmup, repeat, precision, max-time, rates, timeline.
std::span<const OptionRow> measure_options();

/// How often work is timed. Without an exact number of repetitions, until the 95 % interval of the
/// median (core/statistics) lies within +-`precision` of the median, but for at most `max_time` and
/// `max_repetitions`. At least six repetitions are needed, since fewer have no interval.
struct Sampling {
  static constexpr std::size_t max_repetitions = 1000;

  std::uint64_t warmup = 1;                       ///< untimed calls before the timed ones
  std::optional<std::uint64_t> repetitions = {};  ///< an exact number of timed calls, 1 or more
  double precision = 0.01;                        ///< a share of the median
  double max_time = 60;  ///< seconds since the first timed call began; checked after each call

  /// Whether the work is done exactly once: such a run leaves checkpoints, a study does not.
  bool is_single() const { return warmup == 0 && repetitions == 1; }
};
/// As measure.warmup, repeat, precision and max-time say.
Sampling sampling(const Options& options);

/// How sampling ended.
enum class Convergence : std::uint8_t {
  fixed,  ///< after an exact number of repetitions
  converged,
  unconverged,  ///< max_time or max_repetitions came first
};
/// The value of the column `sampling` in /summary.
const char* name_of(Convergence convergence);

/// The stopping rule: how sampling ends after one or more repetitions that took `seconds`,
/// `elapsed` seconds after the first began; nothing if another repetition is needed.
std::optional<Convergence> stop(std::span<const double> seconds, double elapsed,
                                const Sampling& policy);

struct Repetition {
  double seconds;             ///< the slowest rank's time from a common barrier
  std::vector<double> ranks;  ///< every rank's
  std::chrono::steady_clock::time_point begin, end;  ///< this rank's
};

/// The same on every rank, except for the `begin` and `end` of each repetition.
struct Samples {
  std::vector<Repetition> repetitions;
  Convergence convergence = Convergence::fixed;

  std::vector<double> seconds() const;  ///< one number a repetition, in the order of time
};

/// Calls `work` on every rank, untimed for the warm-ups and then timed, each time after a barrier.
/// `work` is told whether it is timed. It returns when this rank's part is done, on the device too.
/// `recorder`, if there is one, settles before each call and at the end. All ranks stop after the
/// same repetition, by rank 0's clock. Throws what `work` throws, on this rank only. Collective.
Samples sample(const launch::Session& session, const Sampling& policy,
               const std::function<void(bool timed)>& work, Recorder* recorder = nullptr);

/// Logs one warning if sampling ended unconverged. For rank 0.
void warn_if_unconverged(const Samples& samples, const Sampling& policy, Log& log);

/// This rank's part of some work.
struct Interval {
  std::chrono::steady_clock::time_point begin, end;

  double seconds() const { return std::chrono::duration<double>(end - begin).count(); }
};

/// Times one call of `work`, which begins when all ranks are here. Throws what `work` throws, on
/// this rank only. Collective.
Interval time_in_step(const launch::Session& session, const std::function<void()>& work);

/// Calls `work`, once or more, until `seconds` have passed since all ranks were here. Returns this
/// rank's seconds a call. Ranks differ in the number of calls, so `work` must not be collective.
/// Collective.
double repeat_for(const launch::Session& session, double seconds,
                  const std::function<void()>& work);

}  // namespace shardstream::measure
