#include "cli/options_of_others.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::cli {
namespace {

// By key or whole section; the first that fits counts.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> owners = {
    {{"reduce.", "reduce"},
     {"input.data", "reduce"},
     {"input.count", "reduce"},
     {"input.shape", "reduce"},
     {"pipeline.batch", "reduce"},
     {"pipeline.batches", "reduce"},
     {"gemm.precision", "gemm or gram"},
     {"gemm.decomposition", "gemm or gram"},
     {"gemm.box", "gemm or gram"},
     {"gemm.", "gemm"},
     {"gram.", "gram"},
     {"input.a", "gemm or gram"},
     {"input.b", "gemm"},
     {"input.c", "gemm"},
     {"output.resume", "gemm or gram"},
     {"output.store", "gemm or gram"}}};

/// "gemm or gram"; empty for options of every workload.
std::string_view owner_of(std::string_view key) {
  const auto found = std::ranges::find_if(owners, [&](const auto& row) {
    return row.first.ends_with('.') ? key.starts_with(row.first) : key == row.first;
  });
  return found == owners.end() ? std::string_view() : found->second;
}

/// What others name data and sizes with, in the place of a key of theirs: "", or a sentence's end
/// on the own options of `workload`, which may be generate.
std::string own_names(std::string_view key, std::string_view workload) {
  struct Names {
    std::string_view of, workload;
    std::vector<std::string_view> options;
  };
  const std::array<Names, 8> all = {
      {{"data", "reduce", {"--input.data"}},
       {"data", "gemm", {"--input.a", "--input.b", "--input.c"}},
       {"data", "gram", {"--input.a"}},
       {"the sizes of generated data", "reduce", {"--input.count", "--input.shape"}},
       {"the sizes of generated data", "gemm", {"--gemm.m", "--gemm.n", "--gemm.k"}},
       {"the sizes of generated data", "gram", {"--gram.rows", "--gram.columns"}},
       {"data", "generate", {"--input.data"}},
       {"the sizes of generated data", "generate", {"--input.shape 200x100", "--input.count"}}}};
  const auto has = [&](const Names& names) {
    return std::ranges::any_of(names.options, [&](auto option) { return option.substr(2) == key; });
  };
  const auto given = std::ranges::find_if(all, has);
  if (given == all.end()) return {};
  const auto own = std::ranges::find_if(
      all, [&](const Names& names) { return names.of == given->of && names.workload == workload; });
  expect(own != all.end(), "everyone has names for its data");
  return fmt::format(" ({} names {} with {})", workload, own->of, join(own->options, ", "));
}

}  // namespace

void refuse_options_of_other_workloads(const Options& options) {
  const std::string& workload = options.text("run.workload");
  for (const auto& [key, value] : options.all()) {
    const std::string_view owner = owner_of(key);
    if (owner.empty() || !options.is_on_command_line(key)) continue;
    if (owner == workload || owner.starts_with(workload + " ") || owner.ends_with(" " + workload)) {
      continue;
    }
    throw UsageError(fmt::format("--{} is for {}, and this run is {}: leave it out{}, or run {}",
                                 key, owner, workload, own_names(key, workload), owner));
  }
}

void refuse_options_of_run(const Options& options, std::span<const std::string_view> own) {
  for (const auto& [key, value] : options.all()) {
    const auto is_own = [&](std::string_view name) {
      return key == name || key.substr(0, key.find('.')) == name;
    };
    if (!options.is_on_command_line(key) || std::ranges::any_of(own, is_own)) continue;
    const std::string_view owner = owner_of(key);
    throw UsageError(fmt::format("--{} is for run{}{}, and this is generate: leave it out{}", key,
                                 owner.empty() ? "" : " ", owner, own_names(key, "generate")));
  }
}

}  // namespace shardstream::cli
