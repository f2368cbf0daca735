#include "workloads/registry.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"
#include "workloads/gemm/gemm.hpp"
#include "workloads/gram/gram.hpp"
#include "workloads/histogram/histogram.hpp"
#include "workloads/model/model.hpp"
#include "workloads/reduce/reduce.hpp"

namespace shardstream::workloads {
namespace {

/// Throws UsageError if neither data nor sizes are named, so that nobody computes with random
/// numbers by mistake.
void expect_data(const Workload& workload, const Options& options) {
  const auto is_default = [&](std::string_view key) { return options.is_default(key); };
  if (workload.data.empty() || !std::ranges::all_of(workload.data, is_default) ||
      !std::ranges::all_of(workload.sizes, is_default)) {
    return;
  }
  throw UsageError(fmt::format(
      "{} has no data: name a data set (shardstream run {} {}), or give the size of random data "
      "(--{})",
      workload.name, workload.name, workload.example, fmt::join(workload.sizes, ", --")));
}

}  // namespace

std::span<const Workload> all() {
  static const std::array workloads = {
      reduce_workload(),       //
      gemm_workload(),         //
      gram_workload(),         //
      covariance_workload(),   //
      correlation_workload(),  //
      model_workload(),        //
      histogram_workload(),
  };
  return workloads;
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> names;
  for (const Workload& workload : all()) names.push_back(workload.name);
  return names;
}

std::span<const OptionRow> run_options() {
  static const std::string choices = join(names(), "|");
  static const std::array rows = {
      OptionRow{"run.workload", OptionKind::choice, "", choices,
                "The workload, for INI files; a workload on the command line sets it too."}};
  return rows;
}

std::vector<std::span<const OptionRow>> options() {
  std::vector<std::span<const OptionRow>> sections;
  for (const Workload& workload : all()) {
    for (const auto& section : workload.options) {
      const auto is_it = [&](const auto& each) { return each.data() == section.data(); };
      if (std::ranges::none_of(sections, is_it)) sections.push_back(section);
    }
  }
  return sections;
}

bool is_of_some_workload(std::string_view key) {
  return std::ranges::any_of(all(), [&](const Workload& each) { return each.takes(key); });
}

const Workload* find(std::string_view name) {
  const auto found = std::ranges::find(all(), name, &Workload::name);
  return found == all().end() ? nullptr : &*found;
}

const Workload& named(std::string_view name) {
  const Workload* const found = find(name);
  expect(found != nullptr, "run.workload names a workload");
  return *found;
}

void expect_same_inputs(const ranks::Session& session, const std::string& identity) {
  const auto all = session.gather(identity);
  const auto other = std::ranges::find_if(all, [&](const auto& each) { return each != all[0]; });
  if (other == all.end()) return;
  throw UsageError(fmt::format(
      "the input is not the same on ranks 0 and {} ({} and {}): use files that all hosts share",
      other - all.begin(), all[0], *other));
}

std::unique_ptr<Task> open(const Options& options) {
  const Workload& workload = named(options.text("run.workload"));
  expect_data(workload, options);
  return workload.open(options);
}

std::unique_ptr<Task> open(const ranks::Session& session, const Options& options) {
  std::unique_ptr<Task> task;
  session.collectively([&] { task = open(options); });
  session.collectively([&] { expect_same_inputs(session, task->identity()); });
  return task;
}

}  // namespace shardstream::workloads
