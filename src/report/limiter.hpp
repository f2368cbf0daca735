// The rule that finds the limiter of a kernel, and the words that `roofline` and reports share.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace shardstream::report {

/// The kinds of rows of the experiment `roofline`, in its column `part`. The rate of an issue roof
/// is in 10^9 instructions of warps per second.
inline constexpr std::string_view memory_roof = "memory roof", link_roof = "link roof",
                                  shared_roof = "shared memory roof",
                                  arithmetic_roof = "arithmetic roof", issue_roof = "issue roof",
                                  device_kernel = "kernel", transfer = "transfer";

enum class Limiter : std::uint8_t { memory, shared_memory, compute, issue, both, latency, unknown };

/// A kernel is bound by a roof if it reaches at least this share of it. NVIDIA's profilers use the
/// same threshold: less than 60 % of both peaks "typically indicates latency issues".
inline constexpr double bound_share = 0.6;
/// The same for work that moves its bytes and computes one after the other: the sum of both shares.
inline constexpr double bound_share_in_turn = 0.8;

/// The shares of its roofs that a kernel reaches; NaN: unknown.
struct RoofShares {
  double memory = std::numeric_limits<double>::quiet_NaN();   ///< of the memory that serves it
  double shared = std::numeric_limits<double>::quiet_NaN();   ///< of shared memory
  double compute = std::numeric_limits<double>::quiet_NaN();  ///< of the roof of its operations
  double issue =
      std::numeric_limits<double>::quiet_NaN();  ///< of the instructions that warps issue
};

/// A kernel is bound by data (memory or shared memory), by instructions (its arithmetic, or all
/// instructions that it issues), or by both. If it reaches none of its roofs, it is bound by
/// latency, unless a share is unknown, which could be that of its limiter.
constexpr Limiter limiter_of(const RoofShares& of) {
  const auto reached = [](double share) { return share >= bound_share; };  // false for NaN
  const bool by_data = reached(of.memory) || reached(of.shared);
  const bool by_instructions = reached(of.compute) || reached(of.issue);
  if (by_data && by_instructions) return Limiter::both;
  if (by_data)
    return reached(of.shared) && !(of.memory >= of.shared) ? Limiter::shared_memory
                                                           : Limiter::memory;
  if (by_instructions) return reached(of.compute) ? Limiter::compute : Limiter::issue;
  const double sum = of.memory + of.shared + of.compute + of.issue;
  return sum == sum ? Limiter::latency : Limiter::unknown;
}

/// The same for a transfer that moves its bytes and computes one after the other.
constexpr Limiter limiter_in_turn(double memory, double compute) {
  const Limiter limiter = limiter_of({memory, 0, compute, 0});
  return limiter == Limiter::latency && memory + compute >= bound_share_in_turn ? Limiter::both
                                                                                : limiter;
}

constexpr std::string_view word_of(Limiter limiter) {
  constexpr std::string_view words[] = {
      "memory-bound", "shared-memory-bound",         "compute-bound",
      "issue-bound",  "data- and instruction-bound", "latency-bound",
      "none known"};
  return words[static_cast<std::uint8_t>(limiter)];
}

/// The arithmetic roof of matrix products in a precision of the program, such as "bf16". fp32 runs
/// on CUDA cores, the others on tensor cores. Empty: there is none.
constexpr std::string_view arithmetic_of(std::string_view precision) {
  if (precision == "fp32") return "fp32";
  if (precision == "tf32") return "tensor tf32";
  if (precision == "bf16") return "tensor bf16";
  if (precision == "fp16") return "tensor fp16";
  if (precision == "fp64") return "tensor fp64";
  return precision == "int8" ? "tensor int8" : "";
}

}  // namespace shardstream::report
