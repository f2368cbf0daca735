// What stands on the command line is meant for this command and workload; variables and INI files
// may serve several.
#pragma once

#include <span>
#include <string_view>

#include "core/options.hpp"

namespace shardstream::cli {

/// Of `run`: throws UsageError for the first option of the command line that is not for
/// run.workload.
void refuse_options_of_other_workloads(const Options& options);

/// Of `generate`: throws UsageError for the first option of the command line that is not among its
/// `own`, keys or whole sections.
void refuse_options_of_run(const Options& options, std::span<const std::string_view> own);

}  // namespace shardstream::cli
