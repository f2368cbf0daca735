#include "scale/workload_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "io/hdf5/result_file.hpp"
#include "result/columns.hpp"
#include "result/tables.hpp"

namespace shardstream::scale {
namespace {

void set(OptionList& values, const std::string& key, const std::string& value) {
  const auto found = std::ranges::find(values, key, &OptionList::value_type::first);
  if (found == values.end()) {
    values.emplace_back(key, value);
  } else {
    found->second = value;
  }
}

}  // namespace

WorkloadPlan::WorkloadPlan(const Order& order)
    : StudyPlan(order),
      run_table_(order.run_table),
      rates_(order.rates),
      workload_(workloads::named(order.options.text("run.workload"))) {
  const std::string grow =
      request().grow == "auto" ? std::string(workload_.grows.front()) : request().grow;
  if (std::ranges::find(workload_.grows, grow) == workload_.grows.end()) {
    throw UsageError(fmt::format("scale.grow: {} has no size {}: give {}", workload_.name,
                                 excerpt(grow), join_or(workload_.grows)));
  }
  if (options().flag("measure.timeline")) omit_timelines();
  for (PlannedSize& size : sizes()) {
    if (!request().weak) continue;
    const double factor =
        static_cast<double>(size.ranks) / static_cast<double>(request().ranks.front());
    const workloads::Scaled scaled = workload_.scaled(options(), factor, grow);
    size.work = scaled.factor;
    size.scaled = scaled.options;
  }
  for (PlannedSize& size : sizes()) size.predicted = predict(size);
}

/// The options of the run, except its output.
OptionList WorkloadPlan::run_options(const PlannedLaunch& launch) const {
  OptionList values;
  const auto is_of_other = [&](std::string_view key) {
    return workloads::is_of_some_workload(key) && !workload_.takes(key);
  };
  for (const auto& [key, value] : chosen(options())) {
    const bool is_for_run =
        std::ranges::find(run_table_.rows(), key, &OptionRow::key) != run_table_.rows().end();
    if (is_for_run && !is_of_other(key) && key != "run.workload") set(values, key, value);
  }
  for (const auto& [key, value] : launch.size->scaled) set(values, key, value);
  const auto set_default = [&](const std::string& key, const std::string& value) {
    if (options().is_default(key)) set(values, key, value);
  };
  for (const auto& [key, value] : run_defaults) {
    if (!is_of_other(key)) set_default(std::string(key), std::string(value));
  }
  if (request().oversubscribe) set_default("device.oversubscribe", "true");
  for (const auto& [key, value] : conditions_) set_default(key, value);
  if (std::ranges::find(conditions_, OptionList::value_type("device.backend", "cuda")) !=
      conditions_.end()) {
    set_default("device.first", std::to_string(first_gpu(launch)));
  }
  if (!launch.measures()) {
    set(values, "measure.repeat", "1");
    set(values, "measure.warmup", "1");
    set(values, "measure.timeline", launch.purpose == Purpose::timeline ? "true" : "false");
  }
  set(values, "launch.expect-ranks", std::to_string(launch.size->ranks));
  set(values, "study.name", name());
  set(values, "study.mode", request().weak ? "weak" : "strong");
  set(values, "study.point", label_of(launch));
  set(values, "study.replicate", std::to_string(launch.replicate));
  return values;
}

std::vector<std::string> WorkloadPlan::listed_command(const PlannedLaunch& launch) const {
  std::vector<std::string> words = launcher().words(launch.size->ranks);
  words.insert(words.end(), {program(), "run", std::string(workload_.name)});
  for (const auto& [key, value] : run_options(launch)) {
    words.push_back(fmt::format("--{}={}", key, value));
  }
  words.insert(words.end(), {"-o", result_of(launch).string()});
  return words;
}

/// The value of device.first. Launches that leave GPUs of a node idle use other GPUs in each
/// replicate, so that differences between GPUs appear as scatter.
std::uint64_t WorkloadPlan::first_gpu(const PlannedLaunch& launch) const {
  const std::uint64_t all = hosts_of(largest().ranks).ranks_on_host;
  const std::uint64_t some = hosts_of(launch.size->ranks).ranks_on_host;
  return some == all || !launch.measures() ? 0 : (launch.replicate - 1) * some % all;
}

/// The distribution of `ranks` ranks over hosts: as scale.ranks-per-node or the Slurm job says,
/// else as in the calibration run. Before that run, the launcher's own choice is unknown.
measure::PlannedRanks WorkloadPlan::hosts_of(std::uint64_t ranks) const {
  measure::PlannedRanks planned{.ranks = ranks, .ranks_on_host = launcher().ranks_on_node(ranks)};
  planned.why_hosts = launcher().why_per_node();
  if (!planned.why_hosts.empty()) return planned;
  if (calibrated_per_host_ > 0) {
    planned.ranks_on_host = std::min(ranks, calibrated_per_host_);
    planned.why_hosts = "as in the calibration run";
    return planned;
  }
  planned.assumes_hosts = true;
  planned.why_hosts = "assumed; --scale.ranks-per-node sets the number on each host";
  return planned;
}

Options WorkloadPlan::options_of(const PlannedLaunch& launch) const {
  std::vector<std::string> arguments = {fmt::format("--run.workload={}", workload_.name)};
  for (const auto& [key, value] : run_options(launch)) {
    arguments.push_back(fmt::format("--{}={}", key, value));
  }
  arguments.insert(arguments.end(), {"-o", result_of(launch).string()});
  if (!rates_.empty()) arguments.push_back("--measure.rates=" + rates_);
  const char* const nothing[] = {nullptr};
  return run_table_.resolve(run_table_.parse_command_line(arguments), nothing, std::nullopt);
}

StoredOptions WorkloadPlan::options_of_result(const PlannedLaunch& launch) const {
  StoredOptions values;
  const Options now = options_of(launch);
  for (const auto& [key, value] : now.all()) values[key] = value.text;
  return values;
}

std::vector<io::InputFile> WorkloadPlan::inputs() const {
  return workloads::open(options())->inputs().files;
}

std::vector<std::string> WorkloadPlan::notes_before_calibration() const {
  return {"Commands still lack the options for equal conditions, which the calibration run sets.",
          "--rates FILE is only for this list. All other options, such as --device.backend, define "
          "the study: give the same ones to each of its commands."};
}

/// Makes a dry run of the size, which also checks the options and inputs of the run.
Predicted WorkloadPlan::predict(const PlannedSize& size) const {
  const Options options = options_of({&size, Purpose::measurement, 1});
  measure::Machine machine(options, hosts_of(size.ranks));
  const workloads::Prediction prediction = workloads::open(options)->predict(machine);
  return {.seconds = prediction.seconds,
          .is_minimum = prediction.is_minimum,
          .sampling = measure::sampling(options),
          .machine = machine.lines(),
          .hosts = ceil_div(machine.ranks(), machine.ranks_on_host()),
          .on_gpus = machine.backend() == Backend::cuda};
}

/// The options that give a rank equal resources at every size: those of the largest size.
OptionList WorkloadPlan::conditions_of(const report::RunFile& run) const {
  OptionList values = {{"measure.rates", run.path.string()}};
  if (!workload_.takes("measure.rates")) values.clear();
  const io::ResultReader file(run.path);
  std::int64_t threads = INT64_MAX;
  for (const result::Rank& rank : result::read<result::Rank>(file)) {
    threads = std::min(threads, rank.threads);
  }
  values.emplace_back("launch.cpus-per-rank", std::to_string(threads));
  for (const OptionRow& row : run_table_.rows()) {
    const std::string key(row.key);
    if (!key.starts_with("pipeline.") && key != "device.backend") continue;
    if (workloads::is_of_some_workload(key) && !workload_.takes(key)) continue;
    std::string value = file.text("/config/resolved", key);
    if (const auto number = file.integer("/config/resolved", key)) value = std::to_string(*number);
    if (!value.empty()) values.emplace_back(key, value);
  }
  return values;
}

void WorkloadPlan::take_conditions(const report::RunFile& calibration) {
  conditions_ = conditions_of(calibration);
  // A workload that plans with rates has them among the conditions; others may have none.
  calibrated_per_host_ = calibration.size.max_ranks_on_host;
  const bool has_rates = !calibration.ceilings.empty();
  rates_ = workload_.takes("measure.rates") || !has_rates ? "" : calibration.path.string();
  for (PlannedSize& size : sizes()) size.predicted = predict(size);
}

}  // namespace shardstream::scale
