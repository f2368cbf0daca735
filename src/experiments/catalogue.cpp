#include "experiments/catalogue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "experiments/ladders/ladders.hpp"
#include "experiments/link/link.hpp"
#include "experiments/memory/memory.hpp"
#include "experiments/pipeline/pipeline.hpp"
#include "experiments/storage/storage.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::experiments {
namespace {

constexpr std::array the_groups = {Group{"link", "host link"}, Group{"memory", "device memory"},
                                   Group{"ladders", "optimisation ladders"},
                                   Group{"storage", "files"},
                                   Group{"pipeline", "the pipeline of a run"}};

/// The needs of an experiment, in sentences.
std::string needs_of(const Experiment& experiment) {
  const Needs& needs = experiment.needs;
  std::string text = needs.gpus > 1 ? fmt::format("Needs {} GPUs", needs.gpus) : "Needs a GPU";
  if (experiment.run_host != nullptr) text = "GPU optional";
  if (const int capability = needs.compute_capability; capability > 0) {
    text += fmt::format(" of compute capability {}.{} or newer", capability / 10, capability % 10);
  }
  if (!needs.file.empty()) text += fmt::format(". Needs --{}", needs.file);
  return text + '.';
}

std::vector<std::string_view> all_names() {
  std::vector<std::string_view> names = {"all"};
  for (const Group& group : the_groups) names.push_back(group.name);
  for (const Experiment& experiment : all()) names.push_back(experiment.name);
  return names;
}

[[noreturn]] void fail_as_unknown(const std::vector<std::string_view>& unknown) {
  const auto with_nearest = [](std::string_view name) {
    return excerpt(name) + did_you_mean(nearest(name, all_names()));
  };
  throw UsageError(fmt::format("there is no experiment {}: see shardstream bench --list",
                               join(unknown, " and no experiment ", with_nearest)));
}

}  // namespace

std::string_view word_of(Look look) {
  constexpr std::array<std::string_view, 4> words = {"bars", "lines", "steps", "matrix"};
  return words[static_cast<std::size_t>(look)];
}

std::span<const Group> groups() {
  return the_groups;
}

std::span<const Experiment> all() {
  static const std::vector<Experiment> experiments = [] {
    std::vector<Experiment> rows;
    for (const auto& group : {link::experiments(), memory::experiments(), ladders::experiments(),
                              storage::experiments(), feeds::experiments()}) {
      rows.insert(rows.end(), group.begin(), group.end());
    }
    return rows;
  }();
  return experiments;
}

std::vector<const Experiment*> chosen(std::span<const std::string> words) {
  if (words.empty()) {
    throw UsageError(
        "bench needs the names of experiments or groups, or all: see shardstream bench --list");
  }
  const std::vector<std::string_view> names = all_names();
  std::vector<std::string_view> unknown;
  for (const std::string& word : words) {
    if (std::ranges::find(names, word) == names.end()) unknown.push_back(word);
  }
  if (!unknown.empty()) fail_as_unknown(unknown);
  std::vector<const Experiment*> found;
  for (const Experiment& experiment : all()) {
    const auto means_it = [&](const std::string& word) {
      return word == "all" || word == experiment.name || word == experiment.group;
    };
    if (std::ranges::any_of(words, means_it)) found.push_back(&experiment);
  }
  return found;
}

const Experiment& named(std::string_view name) {
  const auto found = std::ranges::find(all(), name, &Experiment::name);
  if (found == all().end()) fail_as_unknown({name});
  return *found;
}

std::vector<std::span<const OptionRow>> options() {
  std::vector<std::span<const OptionRow>> rows;
  for (const Experiment& experiment : all()) rows.push_back(experiment.options);
  return rows;
}

void reject_options_of_others(const Options& options, std::span<const Experiment* const> chosen) {
  for (const Experiment& experiment : all()) {
    if (std::ranges::find(chosen, &experiment) != chosen.end()) continue;
    for (const OptionRow& row : experiment.options) {
      if (!options.is_on_command_line(row.key)) continue;
      throw UsageError(
          fmt::format("--{} belongs to the experiment {}, which is not chosen: omit the option, or "
                      "add {}",
                      row.key, experiment.name, experiment.name));
    }
  }
}

void reject_missing_files(const Options& options, std::span<const std::string> words) {
  for (const Experiment& experiment : all()) {
    const std::string_view key = experiment.needs.file;
    if (key.empty() || !options.text(key).empty() ||
        std::ranges::find(words, experiment.name) == words.end()) {
      continue;
    }
    throw UsageError(
        fmt::format("{} reads a file: add --{} FILE.h5:/PATH; shardstream generate writes one",
                    experiment.name, key));
  }
}

std::string list() {
  std::string text;
  for (const Group& group : the_groups) {
    text += fmt::format("{}{} ({}):\n", text.empty() ? "" : "\n", group.title, group.name);
    for (const Experiment& experiment : all()) {
      if (experiment.group != group.name) continue;
      text += wrapped(fmt::format("  {:<17}", experiment.name),
                      fmt::format("{} {}", experiment.summary, needs_of(experiment)), 19);
    }
  }
  if (!built_with_cuda)
    text += "\nThis program was built without CUDA: no experiment can use a GPU.\n";
  return text;
}

std::string help(const Experiment& experiment) {
  std::string text = fmt::format("shardstream bench {} [OPTIONS]\n\n{}\n{}", experiment.name,
                                 wrapped("", std::string(experiment.summary), 0),
                                 wrapped("", std::string(experiment.explanation), 0));
  if (!experiment.reference.empty()) {
    text += '\n' + wrapped("", fmt::format("Published: {}", experiment.reference), 0);
  }
  text += fmt::format("\n{}\n", needs_of(experiment));
  if (!experiment.options.empty()) {
    text += '\n' + OptionTable({experiment.options}).help();
  }
  return text;
}

}  // namespace shardstream::experiments
