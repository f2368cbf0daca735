// All experiments, one row each.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/metric.hpp"
#include "core/options.hpp"
#include "experiments/experiment.hpp"
#include "report/lesson.hpp"

namespace shardstream::experiments {

/// A group of experiments. On the command line, `name` chooses all of them.
struct Group {
  std::string_view name, title;
};

std::span<const Group> groups();
/// In the order of the groups.
std::span<const Experiment* const> all();
/// The words that select() takes: "all", the groups and the experiments.
std::vector<std::string_view> names();

/// The experiments that `words` name, each once and in the order of the catalogue. A word is the
/// name of an experiment or a group, or "all". Throws UsageError if there are no words or a word is
/// unknown; the message suggests the nearest name.
std::vector<const Experiment*> select(std::span<const std::string> words);
/// The experiment with this name; null if there is none.
const Experiment* find(std::string_view name);
/// The same. Throws UsageError, as select() does, if there is none.
const Experiment& named(std::string_view name);

/// The options of all experiments. The section of an option is the name of its experiment.
std::vector<std::span<const OptionRow>> options();
/// Throws UsageError if the command line gives an option of an experiment that is not `selected`.
void reject_options_of_others(const Options& options, std::span<const Experiment* const> selected);
/// Throws UsageError if `words` name an experiment by its own name that needs a file, and the
/// options name none. In a group, such an experiment is not available.
void reject_missing_files(const Options& options, std::span<const std::string> words);

/// A text of an experiment.
struct Text {
  std::string_view key, heading;  ///< the key is that of `bench --list --json`
  std::string words;
};
/// The question, the other parts of the explanation, the exercise with its command and the
/// published figure, without empty ones.
std::vector<Text> texts_of(const Experiment& experiment);

/// For `bench --list`: name, group, sentence and needs; as JSON with all texts.
std::string list(Printing printing);
/// For `bench help`: all texts and options of an experiment.
std::string help(const Experiment& experiment);
/// For the page of `report`; none if no experiment has this name.
std::optional<report::Lesson> lesson_of(std::string_view name);

}  // namespace shardstream::experiments
