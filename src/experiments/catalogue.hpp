// All experiments, one row each.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.hpp"
#include "experiments/experiment.hpp"

namespace shardstream::experiments {

/// A group of experiments, by the word that chooses all of them.
struct Group {
  std::string_view name, title;
};

std::span<const Group> groups();
/// In the order of the groups.
std::span<const Experiment> all();

/// The experiments that `words` name, in the order of the catalogue and each once: names of
/// experiments, names of groups, or "all". Throws UsageError with the nearest name for an unknown
/// one, or if there are no words.
std::vector<const Experiment*> chosen(std::span<const std::string> words);
/// Throws UsageError as chosen() does.
const Experiment& named(std::string_view name);

/// The rows of all experiments. The section of an option is the name of its experiment.
std::vector<std::span<const OptionRow>> options();
/// Throws UsageError if the command line gives an option of an experiment that is not `chosen`.
void reject_options_of_others(const Options& options, std::span<const Experiment* const> chosen);
/// Throws UsageError if `words` name an experiment by its own name that needs a file, and the
/// options name none. In a group, such an experiment is not available.
void reject_missing_files(const Options& options, std::span<const std::string> words);

/// For `bench --list`: name, group, sentence and needs.
std::string list();
/// For `bench help NAME`.
std::string help(const Experiment& experiment);

}  // namespace shardstream::experiments
