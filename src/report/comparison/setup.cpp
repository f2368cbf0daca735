#include "report/comparison/setup.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>

#include "core/text.hpp"
#include "io/hdf5/result_file.hpp"
#include "result/columns.hpp"
#include "result/tables.hpp"
#include "study_folder/study_ini.hpp"

namespace shardstream::report {
namespace {

/// Those of the names in /provenance that describe the machine and not the program. The environment
/// of the job, which differs in every job, is left out.
constexpr std::array<std::string_view, 5> of_machine = {
    "device_software", "network", "nvidia_driver", "openblas_core", "operating_system"};

/// Options whose values differ between any two runs.
bool is_of_one_run(const std::string& key) {
  constexpr std::array<std::string_view, 4> keys = {"output.file", "output.overwrite",
                                                    "output.resume", "working_directory"};
  return key.starts_with("study.") || std::ranges::find(keys, key) != keys.end();
}

/// The attributes of a group: texts and whole numbers.
Values values_of(const io::ResultReader& file, const std::string& group) {
  Values values;
  for (const auto& [name, text] : file.texts(group)) {
    if (!text.empty()) {
      values[name] = text;
    } else if (const auto number = file.integer(group, name)) {
      values[name] = std::to_string(*number);
    }
  }
  return values;
}

std::string list_of(const std::set<std::string>& values) {
  return join(std::vector<std::string_view>(values.begin(), values.end()), ", ");
}

void read_machine(const io::ResultReader& file, const RunFile& run, Values& machine) {
  std::set<std::string> hosts, devices;
  for (const result::Rank& rank : result::read<result::Rank>(file)) {
    hosts.insert(rank.host);
    devices.insert(rank.device);
  }
  machine["hosts"] = list_of(hosts);
  machine["devices"] = list_of(devices);
  if (run.size.gpus > 0) machine["gpus"] = std::to_string(run.size.gpus);
}

/// The options of `setup` that the user of the study has not given. They can only come from its
/// calibration run, which sets these sections and keys.
std::set<std::string> calibrated_options(const RunFile& run, const Setup& setup) {
  const auto chosen = study_folder::read_options(run.path.parent_path());
  const auto name = chosen.find("study.name");
  if (run.study.name.empty() || name == chosen.end() || name->second != run.study.name) return {};
  std::set<std::string> keys;
  for (const auto& [key, value] : setup.options) {
    const bool may_be_set = key.starts_with("pipeline.") || key == "measure.rates" ||
                            key == "launch.cpus-per-rank" || key == "device.backend";
    if (may_be_set && !chosen.contains(key)) keys.insert(key);
  }
  return keys;
}

}  // namespace

Setup read_setup(const RunFile& run) {
  const io::ResultReader file(run.path);
  Setup setup;
  for (const auto& [key, value] : run.options.all) {
    if (is_of_one_run(key) || value.empty()) continue;
    setup.options[key] = value;
    const auto origin = run.options.origins.find(key);
    if (origin != run.options.origins.end() && origin->second == "default")
      setup.defaults.insert(key);
  }
  // A study has its rates from a file of its own, always of the same name.
  if (const auto rates = setup.options.find("measure.rates"); rates != setup.options.end()) {
    rates->second = std::filesystem::path(rates->second).filename().string();
  }
  setup.calibrated = calibrated_options(run, setup);
  for (const auto& [name, value] : values_of(file, "/provenance")) {
    const bool is_machine = std::ranges::find(of_machine, name) != of_machine.end();
    if (name != "environment") (is_machine ? setup.machine : setup.versions)[name] = value;
  }
  read_machine(file, run, setup.machine);
  for (const auto& [key, value] : values_of(file, "/config/resolved")) {
    if (!is_of_one_run(key)) setup.plan[key] = value;
  }
  for (const auto& [name, value] : values_of(file, "/results")) {
    const bool is_verdict = name.starts_with("verif") || name == "verdict";
    if (!is_verdict && name != "plan" && name != "unchecked_rows" && name != "overflowed_rows")
      setup.plan[name] = value;
  }
  return setup;
}

}  // namespace shardstream::report
