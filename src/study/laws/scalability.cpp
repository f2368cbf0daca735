#include "study/laws/scalability.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace shardstream::study {
namespace {

Result<double> peak(double contention, double coherency, double reference) {
  if (!(coherency > 0)) return Result<double>::none("kappa is not positive: the rate has no peak");
  if (!(contention < 1))
    return Result<double>::none("sigma is not below 1: no rank adds to the rate");
  return Result<double>::of(reference * std::sqrt((1 - contention) / coherency));
}

}  // namespace

Result<Scalability> fit_scalability(const Study& study) {
  if (study.sizes.size() < min_scalability_sizes) {
    return Result<Scalability>::none(
        fmt::format("the universal scalability law needs at least {} sizes, but there are {}",
                    min_scalability_sizes, study.sizes.size()));
  }
  Scalability found;
  found.law = fit_linear({.parameters = 3,
                          .basis =
                              [](double q) {
                                return std::array<double, 3>{1, q - 1, q * (q - 1)};
                              },
                          .quantity =
                              [](const MeasuredLaunch& launch) {
                                return launch.ranks * launch.seconds / launch.work;
                              }},
                         study);
  const auto [one, linear, square] = found.law.values;
  const double gamma = 1 / one, sigma = linear / one, kappa = square / one;
  found.rate_of_one = found.law.estimate(gamma, {-gamma * gamma, 0, 0});
  found.contention = found.law.estimate(sigma, {-sigma * gamma, gamma, 0});
  found.coherency = found.law.estimate(kappa, {-kappa * gamma, 0, gamma});
  found.peak_ranks = peak(sigma, kappa, study.anchor);
  return Result<Scalability>::of(found);
}

}  // namespace shardstream::study
