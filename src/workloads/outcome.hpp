// What a workload hands back: tables for the result file, lines for the terminal, a verdict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/table.hpp"
#include "io/result_file.hpp"
#include "measure/ceilings.hpp"
#include "measure/sample.hpp"

namespace shardstream::workloads {

/// One line of standard output: key=value unit.
struct Metric {
  std::string key;
  Cell value;
  std::string unit = {};
  const char* format = "{}";  ///< of fmt: with how many digits a real is printed, "{}" all of them
};

/// What is told of the data that came in: GROUP is /input, or /input/NAME where there are several.
struct InputAttribute {
  std::string group, name;
  io::Attribute value;
};

/// What came of the verification of a result.
enum class Verification : std::uint8_t {
  failed,
  impossible,  ///< nothing of it could be checked
  partly,      ///< what could be checked has passed
  passed,      ///< all of it
};
/// What a user reads of it.
constexpr const char* word_of(Verification verification) {
  constexpr const char* words[] = {"false", "unchecked", "partly", "true"};
  return words[static_cast<std::size_t>(verification)];
}

/// What a rate counts: the work of one repetition, all ranks.
struct Work {
  double amount = 0;
  std::string unit = "GB";        ///< rates are in UNIT/s, energies in J/UNIT
  std::string name = "gigabyte";  ///< the unit as a word, for the key energy_per_NAME
};
/// Work that moves data.
inline Work moving(std::uint64_t bytes) {
  return {static_cast<double>(bytes) / 1e9, "GB", "gigabyte"};
}
/// Work that computes.
inline Work computing(double flops) {
  return {flops / 1e12, "Tflop", "teraflop"};
}

/// The same on every rank.
struct Outcome {
  std::vector<Table> results;                                     ///< become /results/NAME
  std::vector<std::pair<std::string, io::Attribute>> attributes;  ///< of /results
  std::vector<InputAttribute> input;                              ///< of /input and its groups
  /// What options came to where the program chose or rounded, by key: this rank's own.
  std::vector<std::pair<std::string, io::Attribute>> resolved;
  std::vector<Metric> metrics;
  measure::Samples samples;                ///< the timed repetitions
  std::uint64_t elements = 0, bytes = 0;   ///< of work in one repetition, all ranks
  Work work;                               ///< likewise, what rates count
  std::vector<measure::Ceiling> ceilings;  ///< this machine's limits, measured in this run
  Verification verified = Verification::failed;
  std::string verdict;  ///< one sentence on what was verified, or what failed
};

}  // namespace shardstream::workloads
