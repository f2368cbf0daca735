// The host reference of the reduction ladder.
#include <fmt/format.h>

#include <limits>

#include "experiments/bench.hpp"
#include "experiments/ladders/ladders.hpp"
#include "experiments/numbers.hpp"

namespace shardstream::experiments::ladders {

double reference_sum(std::uint64_t count) {
  double sum = 0;
  for (std::uint64_t i = 0; i < count; ++i) sum += unit_number(i);
  return sum;
}

Table reduction_on_host(Bench& bench) {
  const std::uint64_t count = bench.options().count("reduction.count") / 4 * 4;
  if (const std::uint64_t max = bench.memory() / 2 / sizeof(float); count > max) {
    throw UsageError(fmt::format(
        "reduction.count: {} elements do not fit in memory: choose at most {}", count, max));
  }
  std::vector<float> x(count);
  for (std::uint64_t i = 0; i < count; ++i) x[i] = unit_number(i);
  double sum = 0;
  const Timing timing = bench.sample([&] {
    const auto begin = Clock::now();
    sum = 0;
    for (const float value : x) sum += value;
    return seconds_since(begin);
  });
  bench.verify(sum == reference_sum(count), "the sum on the host");
  const Estimate& seconds = timing.seconds;
  Measurements rows({{"rung", ColumnType::text},
                     {"kernel", ColumnType::text},
                     {"factor", ColumnType::real},
                     {"read", ColumnType::real, "GB/s"}},
                    {"time", ColumnType::real, "ms"});
  rows.add({"host reference", "-", 1.0,
            static_cast<double>(count) * sizeof(float) / seconds.value / 1e9},
           seconds.times(1e3), std::numeric_limits<double>::quiet_NaN(),
           "one thread, in doubles, in the order of the elements");
  return std::move(rows).table();
}

}  // namespace shardstream::experiments::ladders
