// Runs the cases of a target in children, many in each until one dies, and judges how they end.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "fuzz/fuzz.hpp"

namespace shardstream::fuzz {

struct Report {
  std::uint64_t cases = 0;
  double seconds = 0;
  std::map<std::string, std::uint64_t> outcomes;  ///< allowed ones
  std::map<std::string, std::uint64_t> findings;  ///< by what they have in common
};

struct Plan {
  std::uint64_t seed;
  std::uint64_t first = 0;            ///< case
  std::optional<std::uint64_t> last;  ///< none: until the time is over
  std::chrono::milliseconds time;
  std::filesystem::path work;      ///< an empty folder
  std::filesystem::path findings;  ///< where inputs are kept; made when there is one
};

/// Runs cases until the time is over, and prints each finding with target, seed and case.
Report run_cases(const Target& target, const Plan& plan);

}  // namespace shardstream::fuzz
