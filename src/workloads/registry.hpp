// The list of all workloads.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ranks/session.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads {

/// All workloads, in the order of the help.
std::span<const Workload> all();

/// The names of all workloads, in the same order.
std::vector<std::string_view> names();

/// The row of run.workload.
std::span<const OptionRow> run_options();

/// The rows of all workloads. A section that several workloads share appears once.
std::vector<std::span<const OptionRow>> options();

/// Whether only some workloads take the option `key`.
bool is_of_some_workload(std::string_view key);

/// The workload with this name; null if there is none.
const Workload* find(std::string_view name);
/// The same. Throws ContractError if there is none; the row of run.workload
/// rejects unknown names.
const Workload& named(std::string_view name);

/// Opens the workload of run.workload. `options` must outlive the task. Throws UsageError, also if
/// the options name neither data nor the size of generated data.
std::unique_ptr<Task> open(const Options& options);

/// Throws UsageError unless `identity`, of a task or a source, is the same on all ranks: hosts may
/// have different files under the same name. Collective.
void expect_same_inputs(const ranks::Session& session, const std::string& identity);

/// Opens the same task on every rank. Throws AgreedError if a rank cannot open it, or if ranks see
/// different inputs. Collective.
std::unique_ptr<Task> open(const ranks::Session& session, const Options& options);

}  // namespace shardstream::workloads
