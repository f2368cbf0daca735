#include "cli/commands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "comm/transport.hpp"
#include "core/error.hpp"
#include "core/options/row.hpp"
#include "core/text.hpp"
#include "io/hdf5/result_file.hpp"
#include "io/source/matrix.hpp"
#include "io/source/source.hpp"
#include "measure/sample.hpp"
#include "measure/telemetry.hpp"
#include "pipeline/pipeline_options.hpp"
#include "ranks/session.hpp"
#include "runtime/runtime.hpp"
#include "study/study_labels.hpp"
#include "workloads/registry.hpp"

namespace shardstream::cli {
namespace {

using workloads::Workload;
using Keys = std::span<const std::string_view>;

bool contains(Keys keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

/// The workloads that take the option `key`, "NAME, NAME or NAME"; empty if every run takes it.
std::string owners_of(std::string_view key) {
  std::vector<std::string_view> owners;
  for (const Workload& workload : workloads::all()) {
    if (workload.takes(key)) owners.push_back(workload.name);
  }
  return join_or(owners);
}

/// If `key` names data or sizes for some workload, names the options of `name` for the same
/// purpose, as the end of a sentence. Otherwise, or if there are no such options, the text is
/// empty.
std::string own_options(std::string_view key, std::string_view name, Keys data, Keys sizes) {
  const auto all = workloads::all();
  const bool is_data = std::ranges::any_of(all, [&](auto& w) { return contains(w.data, key); });
  const bool is_size = std::ranges::any_of(all, [&](auto& w) { return contains(w.sizes, key); });
  const Keys own_keys = is_data ? data : sizes;
  if ((!is_data && !is_size) || own_keys.empty()) return {};
  std::vector<std::string> words;
  for (const std::string_view own : own_keys) words.push_back(fmt::format("--{}", own));
  return fmt::format(" ({} names {} with {})", name,
                     is_data ? "data" : "the sizes of generated data", join(words, ", "));
}

}  // namespace

OptionTable all_options() {
  std::vector<std::span<const OptionRow>> components = {workloads::run_options(),
                                                        io::input_options(), io::matrix_options()};
  const auto of_workloads = workloads::options();
  components.insert(components.end(), of_workloads.begin(), of_workloads.end());
  components.insert(components.end(),
                    {ranks::launch_options(), runtime::device_options(), comm::comm_options(),
                     pipeline::pipeline_options(), measure::measure_options(),
                     measure::telemetry_options(), io::output_options(), study::label_options()});
  return OptionTable(components);
}

std::vector<OptionRow> rows_of(const OptionTable& table, Keys wanted) {
  std::vector<OptionRow> rows;
  std::ranges::copy_if(table.rows(), std::back_inserter(rows),
                       [&](const OptionRow& row) { return options::is_among(row.key, wanted); });
  return rows;
}

void reject_options_of_other_workloads(const Options& options, Keys always) {
  const Workload& workload = workloads::named(options.text("run.workload"));
  for (const auto& [key, value] : options.all()) {
    if (!options.is_on_command_line(key) || workload.takes(key) || contains(always, key)) continue;
    const std::string owners = owners_of(key);
    if (owners.empty()) continue;
    throw UsageError(fmt::format(
        "--{} is an option of {}, but this is a run of {}: leave it out{}, or run {}", key, owners,
        workload.name, own_options(key, workload.name, workload.data, workload.sizes), owners));
  }
}

void reject_options_of_run(const Options& options, std::string_view command, Keys own, Keys data,
                           Keys sizes) {
  for (const auto& [key, value] : options.all()) {
    if (!options.is_on_command_line(key) || options::is_among(key, own)) continue;
    const std::string owners = owners_of(key);
    throw UsageError(fmt::format("--{} is an option of run{}{}, not of {}: leave it out{}", key,
                                 owners.empty() ? "" : " ", owners, command,
                                 own_options(key, command, data, sizes)));
  }
}

}  // namespace shardstream::cli
