// What a workload hands back: tables for the result file, lines for the terminal, a verdict.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/table.hpp"
#include "io/result_file.hpp"
#include "measure/ceilings.hpp"
#include "measure/repeat.hpp"

namespace shardstream::workloads {

/// One line of standard output: key=value unit.
struct Metric {
  std::string key, value, unit = {};
};

/// What is told of the data that came in: GROUP is /input, or /input/NAME where there are several.
struct InputAttribute {
  std::string group, name;
  io::Attribute value;
};

/// The same on every rank.
struct Outcome {
  std::vector<Table> results;                                     ///< become /results/NAME
  std::vector<std::pair<std::string, io::Attribute>> attributes;  ///< of /results
  std::vector<InputAttribute> input;                              ///< of /input and its groups
  /// What options came to where the program chose or rounded, by key: this rank's own.
  std::vector<std::pair<std::string, io::Attribute>> resolved;
  std::vector<Metric> metrics;
  std::vector<measure::Repetition> repetitions;
  std::uint64_t elements = 0, bytes = 0;  ///< of work in one repetition, all ranks
  double flops = 0;  ///< likewise; 0 where the work is to move bytes, and these are counted
  std::vector<measure::Ceiling> ceilings;  ///< this machine's limits, measured in this run
  bool verified = false;
  std::string verdict;  ///< one sentence on what was verified, or what failed
};

}  // namespace shardstream::workloads
