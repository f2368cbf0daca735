#include "workloads/model/law.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "kernels/data/generate.hpp"

namespace shardstream::workloads::model {
namespace {

double real(std::uint64_t x) {
  return static_cast<double>(x);
}

double mean_parallel(const Law& law, std::uint64_t ranks) {
  return (1 - law.serial) * law.work / real(ranks);
}

double overhead_seconds(const Law& law, std::uint64_t ranks) {
  return law.overhead * std::log2(real(ranks));
}

/// A rank's part without noise, divided by the mean: spread evenly from 1 - imbalance for rank 0 to
/// 1 + imbalance for the last rank. `rank` may lie between two ranks.
double share_of_mean(const Law& law, double rank, std::uint64_t ranks) {
  return ranks == 1 ? 1 : 1 + law.imbalance * (2 * rank / real(ranks - 1) - 1);
}

/// The variance of the logarithm of a log-normal variable with the mean 1.
double log_variance(double noise) {
  return std::log1p(noise * noise);
}

/// The logarithm of the normal distribution function.
double log_normal_cdf(double z) {
  const double above = std::erfc(z / std::numbers::sqrt2) / 2;
  return z > 0 ? std::log1p(-above) : std::log(std::erfc(-z / std::numbers::sqrt2) / 2);
}

std::int64_t nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

}  // namespace

double median_of_slowest(const Law& law, std::uint64_t ranks) {
  if (law.noise == 0) return share_of_mean(law, real(ranks - 1), ranks);
  constexpr std::uint64_t max_groups = 1024;  // bounds the time for any number of ranks
  const double deviation = std::sqrt(log_variance(law.noise));
  const std::uint64_t groups = law.imbalance == 0 ? 1 : std::min(ranks, max_groups);
  const double members = real(ranks) / real(groups);
  std::vector<double> means;  // of the logarithms of the parts, in units of their deviation
  for (std::uint64_t group = 0; group < groups; ++group) {
    const double share = share_of_mean(law, (real(group) + 0.5) * members - 0.5, ranks);
    if (share > 0) means.push_back(std::log(share) / deviation);
  }
  const auto log_cdf_of_maximum = [&](double z) {
    double sum = 0;
    for (const double mean : means) sum += members * log_normal_cdf(z - mean);
    return sum;
  };
  constexpr double above = 12;  // beyond the maximum of any number of ranks
  double lo = means.back() - 1, hi = means.back() + above;
  for (int halvings = 0; halvings < 60; ++halvings) {
    const double middle = (lo + hi) / 2;
    (log_cdf_of_maximum(middle) < -std::numbers::ln2 ? lo : hi) = middle;
  }
  return std::exp(deviation * hi - log_variance(law.noise) / 2);
}

Seconds predict(const Law& law, std::uint64_t ranks) {
  return {.serial = law.serial * law.work,
          .parallel = mean_parallel(law, ranks) * median_of_slowest(law, ranks),
          .overhead = overhead_seconds(law, ranks)};
}

double speedup(const Law& law, std::uint64_t ranks) {
  return predict(law, 1).total() / predict(law, ranks).total();
}

double efficiency(const Law& law, std::uint64_t ranks) {
  return speedup(law, ranks) / real(ranks);
}

double counted_work(const Law& law) {
  return law.work;
}

Law scaled(const Law& law, double factor) {
  const double serial = law.serial * law.work;
  Law larger = law;
  larger.work = serial + factor * (law.work - serial);
  larger.serial = serial / larger.work;
  return larger;
}

double factor(double noise, const Draws& draws, std::uint64_t ranks, std::uint64_t rank,
              std::uint64_t repetition) {
  if (noise == 0) return 1;
  const std::uint64_t launch = stream_of(stream_of(draws.seed) + draws.replicate);
  const std::uint64_t stream = stream_of(launch + ranks);
  const std::uint64_t index = (repetition << 32) + 2 * rank;
  // A normal deviate by Box and Muller; 1 - u is never 0.
  const double u = 1 - uniform_element<double>(stream, index);
  const double angle = 2 * std::numbers::pi * uniform_element<double>(stream, index + 1);
  const double normal = std::sqrt(-2 * std::log(u)) * std::cos(angle);
  const double variance = log_variance(noise);
  return std::exp(std::sqrt(variance) * normal - variance / 2);
}

Parts parts_of(const Law& law, const Draws& draws, std::uint64_t rank, std::uint64_t ranks,
               std::optional<std::uint64_t> repetition) {
  const double varied = repetition ? factor(law.noise, draws, ranks, rank, *repetition) : 1;
  const double parallel = mean_parallel(law, ranks) * share_of_mean(law, real(rank), ranks);
  return {.serial = rank == 0 ? nanoseconds(law.serial * law.work) : 0,
          .parallel = nanoseconds(parallel * varied),
          .overhead = nanoseconds(overhead_seconds(law, ranks))};
}

std::int64_t counted_of_all(const Law& law, const Draws& draws, std::uint64_t ranks,
                            std::optional<std::uint64_t> repetition) {
  std::int64_t sum = 0;
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    sum += parts_of(law, draws, rank, ranks, repetition).counted();
  }
  return sum;
}

}  // namespace shardstream::workloads::model
