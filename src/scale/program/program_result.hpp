// The result file of a launch of the user's program, which the study writes after the launch. It
// has the schema of a run (result/RESULT_FILE.md), as far as the values are known.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/description/origin.hpp"
#include "scale/program/metric.hpp"
#include "study_folder/process_record.hpp"

namespace shardstream::scale::program {

/// The facts about a launch that has ended with success.
struct LaunchFacts {
  std::vector<std::pair<std::string, std::string>> options;  ///< for /config
  std::string command;                                       ///< the whole line, for argv
  std::uint64_t ranks = 1;                                   ///< the number of ranks of the size
  std::vector<study_folder::ProcessRecord> processes;        ///< one for each rank, or a single one
  double work = 1;                                           ///< relative to the smallest size
  double wall = 0, utc_end = 0;                              ///< seconds; since 1970
  std::optional<Metric> metric;                              ///< nothing: the wall time counts
  MetricValue value;                                         ///< of the metric
  bool is_checked = false;  ///< whether the output was checked, with success
  std::vector<io::InputFile> inputs;
};

/// Writes and publishes the result, which must not exist. Throws UsageError or Error.
void write_result(const std::filesystem::path& path, const LaunchFacts& facts);

}  // namespace shardstream::scale::program
