// Every workload of the program.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/session.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads {

/// In the order of the help.
std::span<const Workload> all();

/// The row of run.workload.
std::span<const OptionRow> run_options();

/// The rows of all workloads; sections that several share come once.
std::vector<std::span<const OptionRow>> options();

/// Whether an option is a workload's, and not one of every run.
bool is_of_some_workload(std::string_view key);

/// Throws ContractError for a name that is none of all(): the row of run.workload admits no other.
const Workload& named(std::string_view name);

/// Opens the workload that run.workload names. `options` must outlive the task. Throws UsageError,
/// also if neither data nor sizes of generated data are named.
std::unique_ptr<Task> open(const Options& options);

/// Throws UsageError unless `identity`, a task's or a source's, is the same on all ranks: hosts may
/// have different files under one name. Collective.
void expect_same_inputs(const launch::Session& session, const std::string& identity);

/// The same on every rank. Throws AgreedError if a rank cannot open it, or if ranks see different
/// inputs. Collective.
std::unique_ptr<Task> open(const launch::Session& session, const Options& options);

}  // namespace shardstream::workloads
