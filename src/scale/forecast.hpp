// Predicts the times of launches of a study from the calibration run and from finished launches.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

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
  /// Adds the calibration run: its total time, and the time of its only timed repetition.
  void calibrate(double launch, double repetition, double predicted);
  /// Adds the total time of a launch that has succeeded.
  void add(std::uint64_t ranks, double launch, double predicted);

  /// The total time of a launch on `ranks` ranks: the mean of finished launches on as many ranks;
  /// else start-up plus repetitions, corrected by the ratio of measured to predicted times at other
  /// sizes. Without calibrate(), the start-up is the assumed one.
  double launch(std::uint64_t ranks, double predicted) const;
  /// The total time of a launch with as many calls as the calibration run.
  double single(double predicted) const;
  /// The time of a repetition, corrected by the calibration run.
  double repetition(double predicted) const { return predicted * correction_; }
  /// Whether repetitions may take longer than predicted. The calibration run corrects that.
  bool is_minimum() const { return is_minimum_; }
  /// The time by which a launch may exceed its prediction because it repeats until its median is
  /// precise enough; 0 if it repeats a fixed number of times.
  double max_excess() const { return sampling_.repetitions ? 0 : sampling_.max_time; }

 private:
  double untried(double predicted) const;
  double start_and(std::uint64_t repetitions, double predicted) const;

  measure::Sampling sampling_;
  bool is_minimum_;
  std::uint64_t calls_of_single_;
  double startup_ = 0, correction_ = 1;  ///< from the calibration run
  double took_ = 0, untried_ = 0;        ///< sums over finished launches: measured, and untried()
  std::map<std::uint64_t, std::vector<double>> done_;  ///< launches by ranks
};

/// A time limit for a job whose launches take up to `seconds`, as sbatch reads it: ten minutes plus
/// this time, in whole minutes. The ten minutes leave room for the warning before the limit
/// (jobs/study.sbatch).
std::string suggested_limit(double seconds);

}  // namespace shardstream::scale
