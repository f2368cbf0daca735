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

}  // namespace shardstream::experiments::execution
