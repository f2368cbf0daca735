// Predicts the times of launches of a study from the calibration run and from finished launches.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "measure/sample.hpp"

namespace shardstream::scale {

/// Times are in seconds. `predicted` is always the time of one repetition from the dry run.
class Forecast {
 public:
  /// `sampling` is the policy of the launches. `is_minimum`: repetitions may take longer than
  /// predicted. `calls_of_single`: the calls of the work in the calibration run and in a launch for
  /// a timeline, with warm-ups.
  Forecast(const measure::Sampling& sampling, bool is_minimum, std::uint64_t calls_of_single)
      : sampling_(sampling), is_minimum_(is_minimum), calls_of_single_(calls_of_single) {}

  /// Sets the time of a start in seconds, as long as there is no calibration run.
  void assume_startup(double seconds) { startup_ = seconds; }
  /// Adds the calibration run on `ranks` ranks: its total time, and the time of its only timed
  /// repetition.
  void calibrate(std::uint64_t ranks, double launch, double repetition, double predicted);
  /// Adds a launch that has succeeded: its total time, and that of its median repetition.
  void add(std::uint64_t ranks, double launch, double repetition, double predicted);

  /// The total time of a launch on `ranks` ranks: the mean of finished launches on as many ranks;
  /// else start-up plus repetitions, corrected by the ratio of measured to predicted times, which
  /// is interpolated between the nearest measured sizes. Without calibrate(), the start-up is the
  /// assumed one.
  double launch(std::uint64_t ranks, double predicted) const;
  /// The total time of a launch on `ranks` ranks with as many calls as the calibration run.
  double single(std::uint64_t ranks, double predicted) const;
  /// The time of a repetition on `ranks` ranks: the mean of finished launches on as many ranks;
  /// else the predicted time, corrected by the calibration run.
  double repetition(std::uint64_t ranks, double predicted) const;
  /// Whether repetitions may take longer than predicted. The calibration run corrects that.
  bool is_minimum() const { return is_minimum_; }
  /// The time by which a launch may exceed its prediction because it repeats until its median is
  /// precise enough; 0 if it repeats a fixed number of times.
  double max_excess() const { return sampling_.repetitions ? 0 : sampling_.max_time; }

 private:
  /// The finished launches on a number of ranks, and the sums of their times.
  struct Done {
    std::uint64_t launches = 0;
    double launch = 0, repetition = 0;
  };

  double untried(double predicted) const;
  double ratio(std::uint64_t ranks) const;

  measure::Sampling sampling_;
  bool is_minimum_;
  std::uint64_t calls_of_single_;
  double startup_ = 0, correction_ = 1;    ///< from the calibration run
  std::map<std::uint64_t, Done> done_;     ///< by ranks
  std::map<std::uint64_t, double> ratio_;  ///< measured time of a launch over untried(), by ranks
};

/// A time limit for a job whose launches take up to `seconds`, as sbatch reads it: ten minutes plus
/// this time, in whole minutes. The ten minutes leave room for the warning before the limit
/// (jobs/study.sbatch).
std::string suggested_limit(double seconds);

}  // namespace shardstream::scale
