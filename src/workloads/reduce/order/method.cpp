#include "workloads/reduce/order/method.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace shardstream::workloads {
namespace {

/// The element with a rank that may be beyond the ends.
QuantilePosition element(double rank, std::uint64_t count) {
  if (!(rank > 0)) return {0, 0};
  const std::uint64_t last = count - 1;
  // Doubles above 2^53 may round `last` up.
  const std::uint64_t i =
      rank >= static_cast<double>(last) ? last : static_cast<std::uint64_t>(rank);
  return {i, i};
}

/// The place with a rank that need not be whole.
QuantilePosition between(double rank, std::uint64_t count) {
  if (rank < 0 || rank >= static_cast<double>(count - 1)) return element(rank, count);
  const double lower = std::floor(rank);
  if (rank == lower) return element(rank, count);
  const auto i = static_cast<std::uint64_t>(lower);
  return {i, i + 1, rank - lower};
}

/// Discrete methods: the element with rank floor(rank), or the next one unless `stays`.
template <class Stays>
QuantilePosition step(double rank, std::uint64_t count, const Stays& stays) {
  const double lower = std::floor(rank);
  return element(rank == lower && stays(lower) ? lower : lower + 1, count);
}

}  // namespace

QuantilePosition place_of(std::string_view method, std::uint64_t count, double q) {
  const auto n = static_cast<double>(count);
  const double rank = (n - 1) * q;
  const auto continuous = [&](double alpha, double beta) {
    return between(n * q + (alpha + q * (1 - alpha - beta)) - 1, count);
  };
  if (method == "linear") return between(rank, count);
  if (method == "lower") return element(std::floor(rank), count);
  if (method == "higher") return element(std::ceil(rank), count);
  if (method == "nearest") return element(std::nearbyint(rank), count);
  if (method == "midpoint") return between(0.5 * (std::floor(rank) + std::ceil(rank)), count);
  if (method == "inverted_cdf") return step(n * q - 1, count, [](double) { return true; });
  if (method == "averaged_inverted_cdf") {
    const double below = n * q - 1;
    const QuantilePosition found = step(below, count, [](double) { return true; });
    const bool is_mean = below >= 0 && below == std::floor(below) && below < n - 1;
    return is_mean ? QuantilePosition{found.lower, found.lower + 1, 0.5} : found;
  }
  if (method == "closest_observation") {  // a 0-based rank that is odd is an even one from 1 on
    return step(n * q - 1.5, count, [](double lower) { return std::fmod(lower, 2) == 1; });
  }
  if (method == "interpolated_inverted_cdf") return continuous(0, 1);
  if (method == "hazen") return continuous(0.5, 0.5);
  if (method == "weibull") return continuous(0, 0);
  if (method == "median_unbiased") return continuous(1 / 3.0, 1 / 3.0);
  expect(method == "normal_unbiased", "a method of quantiles");
  return continuous(3 / 8.0, 3 / 8.0);
}

}  // namespace shardstream::workloads
