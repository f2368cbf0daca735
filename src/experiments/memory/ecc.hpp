// The cost of ECC, which corrects errors of device memory. HBM has bits of its own for it; GDDR
// stores them among the data.
#pragma once

#include <string>
#include <string_view>

#include "experiments/formatted.hpp"

namespace shardstream::experiments::memory {

/// Whether a memory with a bus of `bits` is HBM: one stack of it has 1024 bits, all chips of GDDR
/// together have at most 512.
constexpr bool is_hbm(int bits) {
  return bits >= 1024;
}

/// The part of the theoretical rate that remains with this state of ECC: "on", "off", or empty if
/// it is unknown (CUDA C++ Best Practices Guide, section Theoretical Bandwidth Calculation: GDDR
/// loses about 20 %, more with scattered accesses).
constexpr double rate_with_ecc(std::string_view state, int bits) {
  return state == "on" && !is_hbm(bits) ? 0.8 : 1;
}

/// The state of ECC and its cost, as a sentence.
inline std::string words_on_ecc(std::string_view state, int bits) {
  if (state.empty()) return "NVML does not report whether ECC is on.";
  if (state == "off") return "ECC is off: errors of device memory are not corrected.";
  if (is_hbm(bits)) {
    return formatted(
        "ECC is on, at almost no cost: the memory is HBM (a bus of {} bits), which has bits of its "
        "own for it.",
        bits);
  }
  return formatted(
      "ECC is on, and the memory is GDDR (a bus of {} bits), which stores the bits for it among "
      "the data: this costs 6.25 % of the memory and about 20 % of the rate, more if accesses are "
      "scattered.",
      bits);
}

}  // namespace shardstream::experiments::memory
