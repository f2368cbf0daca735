#include "study/amdahl.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace shardstream::study {

Result<AmdahlPrediction> Amdahl::predict(int ranks) const {
  expect(ranks >= 1, "a prediction is for one rank or more");
  const double p = ranks;
  const double one = law.values[0] + law.values[1];
  const double seconds = law.values[0] + law.values[1] / p;
  if (!(seconds > 0) || !(one > 0)) {
    return Result<AmdahlPrediction>::none(
        fmt::format("T = a + b/p is not positive on {} ranks", ranks));
  }
  AmdahlPrediction prediction;
  prediction.ranks = ranks;
  prediction.seconds = seconds_of_launch(p);
  const double speedup = one / seconds;
  const std::array<double, 3> gradient = {speedup * (1 / one - 1 / seconds),
                                          speedup * (1 / one - 1 / (p * seconds))};
  prediction.speedup = law.estimate_launch(speedup, gradient);
  prediction.efficiency = law.estimate_launch(speedup / p, {gradient[0] / p, gradient[1] / p});
  return Result<AmdahlPrediction>::of(prediction);
}

Estimate Amdahl::seconds_of_launch(double ranks, const Noise& own) const {
  return law.estimate_launch(law.values[0] + law.values[1] / ranks, {1, 1 / ranks}, own);
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
                               [](double p) {
                                 return std::array<double, 3>{1, 1 / p};
                               },
                           .quantity = [](const Launch& launch) { return launch.seconds; }},
                          study);
  const double a = amdahl.law.values[0], b = amdahl.law.values[1], sum = a + b;
  amdahl.serial_seconds = amdahl.law.estimate(a, {1, 0});
  amdahl.parallel_seconds = amdahl.law.estimate(b, {0, 1});
  amdahl.serial_share = amdahl.law.estimate(a / sum, {b / (sum * sum), -a / (sum * sum)});
  amdahl.extrapolated_to_one = study.anchor > 1;
  return Result<Amdahl>::of(amdahl);
}

}  // namespace shardstream::study
