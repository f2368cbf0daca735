// How long the launches of a study will take: from the calibration run first, then from the
// launches that are done.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "measure/sample.hpp"

namespace shardstream::scale {

/// Times are in seconds. `predicted` is always that of one repetition, by the dry run.
class Forecast {
 public:
  /// `sampling` is that of the launches.
  explicit Forecast(const measure::Sampling& sampling) : sampling_(sampling) {}

  /// Takes the time of the calibration run from start to end, and that of its one repetition, which
  /// a warm-up preceded.
  void calibrate(double launch, double repetition, double predicted);
  /// Takes the time of a launch that has succeeded.
  void add(std::uint64_t ranks, double launch, double predicted);

  /// A launch on so many ranks: the mean of those that are done; else start-up and repetitions, as
  /// much longer or shorter than predicted as other sizes were. Only the repetitions until add()
  /// or calibrate() was called.
  double launch(std::uint64_t ranks, double predicted) const;
  /// A launch of one repetition after one warm-up, by the calibration run.
  double single(double predicted) const;
  /// Whether launches may take longer, until their median is precise enough.
  bool is_minimum() const { return !sampling_.repetitions; }

 private:
  double untried(double predicted) const;
  double start_and(std::uint64_t repetitions, double predicted) const;

  measure::Sampling sampling_;
  double startup_ = 0, correction_ = 1;  ///< by the calibration run
  double took_ = 0, untried_ = 0;        ///< all launches that are done, and what untried() said
  std::map<std::uint64_t, std::vector<double>> done_;  ///< launches by ranks
};

}  // namespace shardstream::scale
