// Little's law: the work in flight is the latency of an operation times the throughput.
#pragma once

#include <algorithm>

namespace shardstream::experiments::execution {

/// Operations that must be in flight to reach `throughput`, in operations per clock, if each one
/// takes `latency` clocks. The unit does not matter: CUDA C++ Programming Guide, section
/// Multiprocessor Level, counts 8 L instructions where a multiprocessor begins 8 per clock, and
/// 44 warps where its four schedulers begin one each and an addition takes 11 clocks.
constexpr double needed_in_flight(double latency, double throughput) {
  return latency * throughput;
}

/// The expected operations per clock with `in_flight` operations in flight, if at most `throughput`
/// are possible.
constexpr double expected_rate(double in_flight, double latency, double throughput) {
  return std::min(in_flight / latency, throughput);
}

/// Steps per clock of `warps` warps of a multiprocessor. A step is a load of `load_latency` clocks,
/// `arithmetic` instructions that need it and each other, one of which takes `latency` clocks, and
/// `other` instructions. A scheduler begins one instruction per clock. `max_loads` bounds the loads
/// per clock of all warps. Without the latencies, this is the example of the section Multiprocessor
/// Level: 30 instructions for each load of 300 clocks need 40 warps, since 40 / 300 steps per clock
/// are as many as four schedulers begin.
struct StepsWithArithmetic {
  double load_latency, latency, max_loads;
  unsigned arithmetic, other;

  constexpr double rate(unsigned warps, unsigned schedulers) const {
    const double busy = std::min(warps, schedulers);
    const double of_latency = warps / (load_latency + arithmetic * latency);
    const double of_schedulers = busy / (arithmetic + other);
    return std::min({of_latency, of_schedulers, max_loads});
  }
};

}  // namespace shardstream::experiments::execution
