#include "experiments/catalogue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "core/error.hpp"
#include "core/table.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "experiments/axes.hpp"
#include "experiments/code.hpp"
#include "experiments/ladders/own_kernel.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::experiments {

// Each experiment is defined in the file of its name, in the folder of its group.
namespace link {
extern const Experiment about_transfer, about_batching, about_zero_copy, about_overlap, about_peer,
    about_allocation, about_timers, about_returns;
}
namespace memory {
extern const Experiment about_bandwidth, about_offset, about_stride, about_alignment, about_latency,
    about_cache, about_async_copy, about_banks, about_l2_window, about_texture, about_constant,
    about_spills;
}
namespace ladders {
extern const Experiment about_reduction, about_reduction_order, about_matmul, about_gram,
    about_atomics;
}
namespace execution {
extern const Experiment about_occupancy, about_hiding, about_barriers, about_warp, about_unroll,
    about_divergence, about_gather, about_concurrency, about_serialising, about_carveout,
    about_scheduling, about_sharing;
}
namespace instructions {
extern const Experiment about_integer, about_math, about_precision, about_roofline;
}
namespace machine {
extern const Experiment about_managed, about_host_memory, about_collectives, about_contention,
    about_runtime_compile, about_startup;
}
namespace storage {
extern const Experiment about_plain_reads;
}
namespace feeds {
extern const Experiment about_feed, about_file_feed;
}

namespace {

/// In the order of the groups.
constexpr std::array catalogue = {
    &link::about_transfer,
    &link::about_batching,
    &link::about_zero_copy,
    &link::about_overlap,
    &link::about_peer,
    &link::about_allocation,
    &link::about_timers,
    &link::about_returns,
    &memory::about_bandwidth,
    &memory::about_offset,
    &memory::about_stride,
    &memory::about_alignment,
    &memory::about_latency,
    &memory::about_cache,
    &memory::about_async_copy,
    &memory::about_banks,
    &memory::about_l2_window,
    &memory::about_texture,
    &memory::about_constant,
    &memory::about_spills,
    &ladders::about_reduction,
    &ladders::about_reduction_order,
    &ladders::about_matmul,
    &ladders::about_gram,
    &ladders::about_atomics,
    &execution::about_occupancy,
    &execution::about_hiding,
    &execution::about_barriers,
    &execution::about_warp,
    &execution::about_unroll,
    &execution::about_divergence,
    &execution::about_gather,
    &execution::about_concurrency,
    &execution::about_serialising,
    &execution::about_carveout,
    &execution::about_scheduling,
    &execution::about_sharing,
    &instructions::about_integer,
    &instructions::about_math,
    &instructions::about_precision,
    &instructions::about_roofline,
    &machine::about_managed,
    &machine::about_host_memory,
    &machine::about_collectives,
    &machine::about_contention,
    &machine::about_runtime_compile,
    &machine::about_startup,
    &storage::about_plain_reads,
    &feeds::about_feed,
    &feeds::about_file_feed,
};

constexpr std::array the_groups = {Group{"link", "host link"},
                                   Group{"memory", "device memory"},
                                   Group{"ladders", "optimisation ladders"},
                                   Group{"execution", "threads, warps and kernels"},
                                   Group{"instructions", "instructions and types"},
                                   Group{"machine", "the machine"},
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
  if (needs.ranks > 1) text += fmt::format(". Needs {} ranks", needs.ranks);
  if (!needs.file.empty()) text += fmt::format(". Needs --{}", needs.file);
  return text + '.';
}

std::string list_as_json() {
  std::vector<Column> columns;
  for (const char* const name :
       {"name", "group", "summary", "needs", "question", "varies", "exercise", "expectation",
        "pitfalls", "published", "read_on", "axes"}) {
    columns.push_back({name, ColumnType::text});
  }
  Table rows("experiments", columns);
  for (const Experiment* each : catalogue) {
    const Explanation& explanation = each->explanation;
    const std::string needs = needs_of(*each);
    const std::string sections = join(each->read_on, "; ", [](const Section& section) {
      return fmt::format("{} <{}>", title_of(section), link_of(section));
    });
    const std::string axes = join(each->axes, "; ", [](const Axis& axis) {
      return fmt::format("{}: {}", axis.name, words_of(axis));
    });
    std::vector<Cell> cells;
    for (const std::string_view text :
         {each->name, each->group, each->summary, std::string_view(needs), explanation.question,
          explanation.varies, each->exercise.task, explanation.expectation, explanation.pitfalls,
          each->reference, std::string_view(sections), std::string_view(axes)}) {
      cells.emplace_back(std::string(text));
    }
    rows.add(std::move(cells));
  }
  return to_json(std::span(&rows, 1));
}

[[noreturn]] void fail_as_unknown(const std::vector<std::string_view>& unknown) {
  const auto with_nearest = [](std::string_view name) {
    return excerpt(name) + did_you_mean(nearest(name, names()));
  };
  throw UsageError(fmt::format("there is no experiment {}: see shardstream bench --list",
                               join(unknown, " and no experiment ", with_nearest)));
}

}  // namespace

std::span<const Group> groups() {
  return the_groups;
}

std::span<const Experiment* const> all() {
  return catalogue;
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> names = {"all"};
  for (const Group& group : the_groups) names.push_back(group.name);
  for (const Experiment* experiment : catalogue) names.push_back(experiment->name);
  return names;
}

std::vector<Text> texts_of(const Experiment& experiment) {
  const Explanation& explanation = experiment.explanation;
  const std::string_view task = experiment.exercise.task;
  std::string exercise;
  if (!task.empty()) {
    exercise =
        fmt::format("{} Then compare: shardstream bench {} --predict", task, experiment.name);
  }
  std::vector<Text> texts = {{"question", "Question", std::string(explanation.question)},
                             {"varies", "Cases and columns", std::string(explanation.varies)},
                             {"exercise", "Exercise", std::move(exercise)},
                             {"expectation", "Expectation", std::string(explanation.expectation)},
                             {"pitfalls", "Pitfalls", std::string(explanation.pitfalls)},
                             {"published", "Published", std::string(experiment.reference)}};
  std::erase_if(texts, [](const Text& text) { return text.words.empty(); });
  return texts;
}

std::vector<const Experiment*> select(std::span<const std::string> words) {
  if (words.empty()) {
    throw UsageError(
        "bench needs the names of experiments or groups, or all: see shardstream bench --list");
  }
  const std::vector<std::string_view> known = names();
  std::vector<std::string_view> unknown;
  for (const std::string& word : words) {
    if (std::ranges::find(known, word) == known.end()) unknown.push_back(word);
  }
  if (!unknown.empty()) fail_as_unknown(unknown);
  std::vector<const Experiment*> found;
  std::ranges::copy_if(catalogue, std::back_inserter(found), [&](const Experiment* each) {
    return std::ranges::any_of(words, [&](const std::string& word) {
      return word == "all" || word == each->name || word == each->group;
    });
  });
  return found;
}

const Experiment* find(std::string_view name) {
  const auto found = std::ranges::find(catalogue, name, &Experiment::name);
  return found == catalogue.end() ? nullptr : *found;
}

const Experiment& named(std::string_view name) {
  const Experiment* const found = find(name);
  if (found == nullptr) fail_as_unknown({name});
  return *found;
}

std::vector<std::span<const OptionRow>> options() {
  std::vector<std::span<const OptionRow>> rows;
  for (const Experiment* experiment : catalogue) rows.push_back(experiment->options);
  return rows;
}

void reject_options_of_others(const Options& options, std::span<const Experiment* const> selected) {
  for (const Experiment* experiment : catalogue) {
    if (std::ranges::find(selected, experiment) != selected.end()) continue;
    for (const OptionRow& row : experiment->options) {
      if (!options.is_on_command_line(row.key)) continue;
      throw UsageError(
          fmt::format("--{} belongs to the experiment {}, which is not chosen: omit the option, or "
                      "add {}",
                      row.key, experiment->name, experiment->name));
    }
  }
}

void reject_missing_files(const Options& options, std::span<const std::string> words) {
  for (const Experiment* experiment : catalogue) {
    const std::string_view key = experiment->needs.file;
    if (key.empty() || !options.text(key).empty() ||
        std::ranges::find(words, experiment->name) == words.end()) {
      continue;
    }
    throw UsageError(
        fmt::format("{} reads a file: add --{} FILE.h5:/PATH; shardstream generate writes one",
                    experiment->name, key));
  }
}

std::string list(Printing printing) {
  if (printing == Printing::none) return {};
  if (printing == Printing::json) {
    return list_as_json();
  }
  std::string text;
  for (const Group& group : the_groups) {
    text += fmt::format("{}{} ({}):\n", text.empty() ? "" : "\n", group.title, group.name);
    for (const Experiment* experiment : catalogue) {
      if (experiment->group != group.name) continue;
      text += wrapped(fmt::format("  {:<17}", experiment->name),
                      fmt::format("{} {}", experiment->summary, needs_of(*experiment)), 19);
    }
  }
  if (!built_with_cuda)
    text += "\nThis program was built without CUDA: no experiment can use a GPU.\n";
  return text;
}

std::string help(const Experiment& experiment) {
  std::string text = fmt::format("shardstream bench {} [OPTIONS]\n\n{}", experiment.name,
                                 wrapped("", std::string(experiment.summary), 0));
  for (const auto& [key, heading, words] : texts_of(experiment)) {
    text += fmt::format("\n{}\n{}", heading, wrapped("  ", words, 2));
  }
  text += "\nRead on\n";
  for (const Section& section : experiment.read_on) {
    const std::string title = title_of(section), link = link_of(section);
    text += fmt::format("  {}\n", title);
    if (link != title) text += fmt::format("    {}\n", link);
  }
  text += fmt::format("\n{}\n", needs_of(experiment)) + help(experiment.axes);
  text += ladders::own_kernel_help(experiment.name);
  if (!experiment.options.empty()) {
    text += '\n' + OptionTable({experiment.options}).help();
  }
  return text;
}

std::optional<report::Lesson> lesson_of(std::string_view name) {
  const Experiment* const experiment = find(name);
  if (experiment == nullptr) return std::nullopt;
  report::Lesson lesson;
  lesson.question = experiment->explanation.question;
  for (const auto& [key, heading, words] : texts_of(*experiment)) {
    // The question has its own place, and the published figure stands in the file.
    if (key == "question" || key == "published") continue;
    lesson.texts.push_back({std::string(heading), words});
  }
  for (const Section& section : experiment->read_on) {
    lesson.read_on.push_back({title_of(section), link_of(section)});
  }
  for (Declaration& declaration : code_of(*experiment)) {
    lesson.code.push_back({place_of(declaration), std::move(declaration.text)});
  }
  return lesson;
}

}  // namespace shardstream::experiments
