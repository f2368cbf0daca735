// The theoretical rate of a memory: two transfers per cycle, each as wide as the bus.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "experiments/bench.hpp"
#include "experiments/memory/memory.hpp"

namespace shardstream::experiments::memory {

double theoretical_rate(double clock, double width) {
  constexpr double transfers_a_cycle = 2, bits_of_byte = 8;
  return transfers_a_cycle * clock * 1e6 * width / bits_of_byte / 1e9;
}

double theoretical_rate(const Bench& bench, double own_width) {
  const auto given = [&](const char* key, double own) {
    return bench.options().is_auto(key) ? own : bench.options().number(key);
  };
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  const int clock = bench.facts().memory_clock_max;
  return theoretical_rate(given("bandwidth.clock", clock > 0 ? clock : unknown),
                          given("bandwidth.width", own_width));
}

std::string share_of_theoretical(double rate, double theoretical) {
  if (std::isnan(theoretical)) return "the theoretical rate is unknown: NVML does not report it";
  const double share = rate / theoretical;
  return fmt::format("{:.2f} of the theoretical {:.0f} GB/s{}", share, theoretical,
                     share > 1      ? ": a part of the data stays in the L2 cache"
                     : share < 0.75 ? ": less than the usual 0.8 to 0.95"
                                    : "");
}

Table theoretical_bandwidth(Bench& bench) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const double rate = theoretical_rate(bench, none);
  if (std::isnan(rate)) {
    throw NotAvailable(
        "there is no GPU: add --bandwidth.clock and --bandwidth.width for the theoretical rate");
  }
  Measurements rows({{"kernel", ColumnType::text}}, {"rate", ColumnType::real, "GB/s"});
  rows.add({"theoretical"}, {rate, none, none}, none,
           "2 x clock x width / 8; nothing was measured");
  return std::move(rows).table();
}

}  // namespace shardstream::experiments::memory
