#include "study/laws/amdahl.hpp"

#include <fmt/format.h>

#include <array>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::study {

Result<AmdahlPrediction> Amdahl::predict(int ranks) const {
  expect(ranks >= 1, "a prediction is for one rank or more");
  AmdahlPrediction prediction;
  prediction.ranks = ranks;
  prediction.seconds = seconds_of_launch(ranks);
  const double seconds = prediction.seconds.value;
  if (!(seconds > 0)) {
    return Result<AmdahlPrediction>::none(
        fmt::format("T = a + b/q is not positive on {}", counted(ranks, "rank")));
  }
  const double speedup = reference * reference_seconds.value / seconds;
  std::vector<double> changes = law.changes({1, static_cast<double>(reference) / ranks});
  for (double& each : changes) each *= -speedup / seconds;
  changes.front() += speedup;  // the smallest size is the numerator, too
  prediction.speedup = law.estimate(speedup, changes, ranks);
  for (double& each : changes) each /= ranks;
  prediction.efficiency = law.estimate(speedup / ranks, changes, ranks);
  return Result<AmdahlPrediction>::of(prediction);
}

Estimate Amdahl::seconds_of_launch(double ranks) const {
  const double share = reference / ranks;
  return law.estimate(law.values[0] + law.values[1] * share, law.changes({1, share}), ranks);
}

double Amdahl::ideal_seconds(double ranks) const {
  return reference_seconds.value * reference / ranks;
}

Result<Amdahl> fit_amdahl(const Study& study) {
  if (study.mode != Mode::strong) {
    return Result<Amdahl>::none("Amdahl's law is for strong scaling, and the study is a weak one");
  }
  if (study.sizes.size() < 2) {
    return Result<Amdahl>::none(
        fmt::format("Amdahl's law needs two numbers of ranks, but all launches ran on {}",
                    study.sizes.front().ranks));
  }
  Amdahl amdahl;
  amdahl.law = fit_linear({.parameters = 2,
                           .basis =
                               [](double q) {
                                 return std::array<double, 3>{1, 1 / q};
                               },
                           .quantity = [](const MeasuredLaunch& launch) { return launch.seconds; }},
                          study);
  const double a = amdahl.law.values[0], b = amdahl.law.values[1], sum = a + b;
  amdahl.serial_seconds = amdahl.law.estimate(a, {1, 0});
  amdahl.parallel_seconds = amdahl.law.estimate(b, {0, 1});
  amdahl.serial_share = amdahl.law.estimate(a / sum, {b / (sum * sum), -a / (sum * sum)});
  amdahl.reference = study.anchor;
  amdahl.reference_seconds = study.sizes.front().seconds;
  return Result<Amdahl>::of(amdahl);
}

}  // namespace shardstream::study
