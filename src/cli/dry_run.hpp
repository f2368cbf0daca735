// `run WORKLOAD --dry-run`: what a run would do and about how long it would take, told on a login
// node, without MPI and without GPUs.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/log.hpp"
#include "core/options.hpp"

namespace shardstream::cli {

/// The words of the command line that are for this alone.
inline constexpr std::array<std::string_view, 1> dry_run_switches = {"dry-run"};
inline constexpr std::array<std::string_view, 3> dry_run_settings = {"ranks", "gpus-per-node",
                                                                     "rates"};

struct DryRun {
  std::uint64_t ranks = 1;
  std::uint64_t ranks_on_host = 1;  ///< at most `ranks`
  std::filesystem::path rates;      ///< a result whose /ceilings count; empty: none
};

/// What the command line asks for; none without --dry-run. Throws UsageError for values that cannot
/// be, and where the other words stand without it.
std::optional<DryRun> dry_run_of(const CommandLine& line);

/// Opens the inputs as a run would, and returns its plan in lines, for rank 0. Rates and memory
/// that nobody has measured are assumed, which the lines say. Throws the errors that a run would
/// end with before it computes, but for what shows only where something is written, and UsageError
/// where `rates` is no result. Warns where it tells only in part of this run, and of ranks without
/// work.
std::string dry_run(const Options& options, const DryRun& wishes, Log& log);

}  // namespace shardstream::cli
