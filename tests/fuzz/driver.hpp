// Runs the cases of a target in child processes, many in each until one dies, and checks their
// ends.
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
  std::map<std::string, std::uint64_t> outcomes;  ///< number of each allowed outcome
  std::map<std::string, std::uint64_t> findings;  ///< number of findings of each kind
};

struct Plan {
  std::uint64_t seed;
  std::uint64_t first = 0;            ///< number of the first case
  std::optional<std::uint64_t> last;  ///< if not set, cases run until the time is over
  std::chrono::milliseconds time;
  std::filesystem::path work;      ///< an empty folder
  std::filesystem::path findings;  ///< folder for inputs of findings; created on demand
};

/// Runs cases until the time is over, and prints each finding with target, seed and case.
Report run_cases(const Target& target, const Plan& plan);

}  // namespace shardstream::fuzz
