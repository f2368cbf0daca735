#include "workloads/model/law.hpp"

#include <cmath>
#include <numbers>

#include "kernels/data/generate.hpp"

namespace shardstream::workloads::model {
namespace {

double real(std::uint64_t x) {
  return static_cast<double>(x);
}

/// Without noise: the parts are spread evenly around their mean, from 1 - imbalance for rank 0 to
/// 1 + imbalance for the last rank.
double parallel_seconds(const Law& law, std::uint64_t rank, std::uint64_t ranks) {
  const double mean = (1 - law.serial) * law.work / real(ranks);
  if (ranks == 1) return mean;
  return mean * (1 + law.imbalance * (2 * real(rank) / real(ranks - 1) - 1));
}

std::int64_t nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

}  // namespace

Seconds predict(const Law& law, std::uint64_t ranks) {
  return {.serial = law.serial * law.work,
          .parallel = parallel_seconds(law, ranks - 1, ranks),
          .overhead = law.overhead * std::log2(real(ranks))};
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

double factor(const Noise& noise, std::uint64_t rank, std::uint64_t repetition) {
  if (noise.deviation == 0) return 1;
  const std::uint64_t stream = stream_of(noise.seed);
  const std::uint64_t index = (repetition << 32) + 2 * rank;
  // A normal deviate by Box and Muller; 1 - u is never 0.
  const double u = 1 - uniform_element<double>(stream, index);
  const double angle = 2 * std::numbers::pi * uniform_element<double>(stream, index + 1);
  const double normal = std::sqrt(-2 * std::log(u)) * std::cos(angle);
  const double variance = std::log1p(noise.deviation * noise.deviation);
  return std::exp(std::sqrt(variance) * normal - variance / 2);
}

Parts parts_of(const Law& law, const Noise& noise, std::uint64_t rank, std::uint64_t ranks,
               std::optional<std::uint64_t> repetition) {
  const Seconds predicted = predict(law, ranks);
  const double varied = repetition ? factor(noise, rank, *repetition) : 1;
  return {.serial = rank == 0 ? nanoseconds(predicted.serial) : 0,
          .parallel = nanoseconds(parallel_seconds(law, rank, ranks) * varied),
          .overhead = nanoseconds(predicted.overhead)};
}

std::int64_t counted_of_all(const Law& law, const Noise& noise, std::uint64_t ranks,
                            std::optional<std::uint64_t> repetition) {
  std::int64_t sum = 0;
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    sum += parts_of(law, noise, rank, ranks, repetition).counted();
  }
  return sum;
}

}  // namespace shardstream::workloads::model
