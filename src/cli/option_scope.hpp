// Rejects options of the command line that another command or workload takes. Variables and INI
// files may serve several commands and workloads, so their options are not checked.
#pragma once

#include <span>
#include <string_view>

#include "core/options.hpp"

namespace shardstream::cli {

/// Of `run`: throws UsageError for the first option of the command line that is not for
/// run.workload. `always` are keys that count for every workload, as some do in a dry run.
void reject_options_of_other_workloads(const Options& options,
                                       std::span<const std::string_view> always);

/// Of `generate`: throws UsageError for the first option of the command line that is not among its
/// `own`, keys or whole sections. `data` and `sizes` are its keys for data and for sizes.
void reject_options_of_run(const Options& options, std::span<const std::string_view> own,
                           std::span<const std::string_view> data,
                           std::span<const std::string_view> sizes);

}  // namespace shardstream::cli
