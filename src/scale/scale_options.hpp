// The options of `scale`: the sizes of a study, and how its runs are launched.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.hpp"
#include "scale/program/metric.hpp"

namespace shardstream::scale {

/// The rows of [scale].
std::span<const OptionRow> scale_options();

/// The program that a study launches in place of a workload.
struct ProgramRequest {
  /// Its words, in which keys in braces are to be replaced; empty: the study is of a workload.
  std::vector<std::string> command;
  std::vector<std::string> environment = {};   ///< KEY=VALUE, with the same keys
  std::optional<program::Metric> metric = {};  ///< nothing: the wall time
  std::string expect = {};                     ///< a regular expression, or empty
};

/// The checked values of [scale].
struct StudyRequest {
  std::vector<std::uint64_t> ranks;  ///< ascending, at least one
  bool weak = false;
  std::uint64_t replicates = 3;
  std::string launcher;                              ///< a template, or "auto"
  std::optional<std::uint64_t> ranks_per_node = {};  ///< nothing: the launcher decides
  bool oversubscribe = false;
  std::optional<double> timeout = {};  ///< of one launch in seconds; nothing: from the prediction
  bool cold = false;                   ///< whether to drop the input's pages before each launch
  std::string grow;                    ///< for weak scaling; "auto": the workload's default
  std::uint64_t seed = 1;
  bool timeline = true;  ///< whether each size gets one more run that records its spans
  ProgramRequest program = {};

  std::uint64_t max_ranks() const { return ranks.back(); }
};

/// Throws UsageError with the name of the option.
StudyRequest request_of(const Options& options);

/// The numbers of "1,2,4" in ascending order. Throws UsageError for anything else and for
/// duplicates.
std::vector<std::uint64_t> parse_ranks(std::string_view text);

}  // namespace shardstream::scale
