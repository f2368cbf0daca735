// The options of `scale`: which points a study has and how they are launched.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.hpp"

namespace shardstream::scale {

/// The rows of [scale].
std::span<const OptionRow> scale_options();

/// The values of [scale], checked.
struct Request {
  std::vector<std::uint64_t> ranks;  ///< ascending, at least one
  bool weak = false;
  std::uint64_t replicates = 3;
  std::string launcher;                              ///< a template; "auto": as found
  std::optional<std::uint64_t> ranks_per_node = {};  ///< nothing: the launcher's choice
  bool oversubscribe = false;
  std::optional<double> timeout = {};  ///< seconds of one launch; nothing: from its predicted time
  bool cold = false;                   ///< whether the input's pages are dropped before each launch
  std::string grow;                    ///< for weak scaling; "auto": the workload's first
  std::uint64_t seed = 1;
  bool timeline = true;  ///< whether each size gets one more run that keeps its spans

  std::uint64_t max_ranks() const { return ranks.back(); }
};

/// Throws UsageError, which names the option.
Request request_of(const Options& options);

/// "1,2,4" as ascending numbers, each once. Throws UsageError for anything else.
std::vector<std::uint64_t> parse_ranks(std::string_view text);

}  // namespace shardstream::scale
