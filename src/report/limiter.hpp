// The rule that finds the limiter of a kernel, and the words that `roofline` and reports share.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardstream::report {

/// The kinds of rows of the experiment `roofline`, in its column `part`.
inline constexpr std::string_view memory_roof = "memory roof", link_roof = "link roof",
                                  arithmetic_roof = "arithmetic roof", device_kernel = "kernel",
                                  transfer = "transfer";

enum class Limiter : std::uint8_t { memory, compute, both, latency, unknown };

/// A kernel is bound by a roof if it reaches at least this share of it. NVIDIA's profilers use the
/// same threshold: less than 60 % of both peaks "typically indicates latency issues".
inline constexpr double bound_share = 0.6;
/// The same for work that moves its bytes and computes one after the other: the sum of both shares.
inline constexpr double bound_share_in_turn = 0.8;

/// `memory` and `compute` are the shares of the roofs of the kernel's bytes and operations. NaN for
/// `compute`: no roof bounds its operations. Then only memory can be found to be the limiter.
/// `in_turn`: the work moves its bytes and computes one after the other.
constexpr Limiter limiter_of(double memory, double compute, bool in_turn = false) {
  const bool by_memory = memory >= bound_share, by_compute = compute >= bound_share;
  if (by_memory && by_compute) return Limiter::both;
  if (by_memory) return Limiter::memory;
  if (by_compute) return Limiter::compute;
  if (in_turn && memory + compute >= bound_share_in_turn) return Limiter::both;
  return compute == compute ? Limiter::latency : Limiter::unknown;
}

constexpr std::string_view word_of(Limiter limiter) {
  constexpr std::string_view words[] = {"memory-bound", "compute-bound",
                                        "memory- and compute-bound", "latency-bound",
                                        "not memory-bound"};
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
