#include "report/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "core/text.hpp"
#include "report/inputs.hpp"
#include "study_folder/names.hpp"

namespace shardstream::report {
namespace {

using Runs = std::vector<const RunFile*>;

std::string quoted(const RunFile& run) {
  return fmt::format("'{}'", run.path.string());
}

std::string in(const RunFile& run) {
  return "in " + quoted(run);
}

using Values = std::map<std::string, std::string>;

/// The values of a run that must agree, including its work.
Values values_of(const RunFile& run) {
  Values values = run.values;
  values["work"] = fmt::format("{} {}", run.work, run.work_unit);
  return values;
}

/// The name of the first value that both have and that differs. Empty if there is none.
std::string differing_value(const Values& values, const Values& others) {
  for (const auto& [name, value] : values) {
    const auto found = others.find(name);
    if (found != others.end() && found->second != value) return name;
  }
  return {};
}

/// The earliest run among those with the most frequent `trait`; null without runs.
template <class Trait>
const RunFile* most_common(const Runs& runs, const Trait& trait) {
  std::map<decltype(trait(*runs.front())), std::size_t> count;
  for (const RunFile* run : runs) ++count[trait(*run)];
  const auto most =
      std::ranges::max_element(runs, {}, [&](const RunFile* run) { return count[trait(*run)]; });
  return most == runs.end() ? nullptr : *most;
}

/// The launches among `runs`, without timeline runs.
Runs launches_of(const Runs& runs) {
  Runs launches;
  std::ranges::copy_if(runs, std::back_inserter(launches), [](const RunFile* run) {
    return run->study.point != study_folder::timeline_label;
  });
  return launches;
}

/// The difference between the input files of two runs, as the end of a sentence.
std::string words_on_inputs(const RunFile& reference, const RunFile& run) {
  if (reference.inputs.empty() && run.inputs.empty()) return {};
  const std::string difference =
      difference_of(reference.inputs, run.inputs, in(reference), in(run));
  return difference.empty() ? ", with input files of the same names, sizes and times"
                            : fmt::format(" ({})", difference);
}

/// Excludes those of `runs`, which must agree, that contradict most of them.
void compare(const Runs& runs, Agreement& agreement) {
  const RunFile* const reference = most_common(launches_of(runs), values_of);
  if (reference == nullptr) return;
  const Values usual = values_of(*reference);
  for (const RunFile* run : runs) {
    const Values values = values_of(*run);
    const std::string name = differing_value(values, usual);
    if (name.empty()) continue;
    const std::string words =
        fmt::format("the value {} is {} in {}, but {} in {}{}", name, excerpt(usual.at(name)),
                    quoted(*reference), excerpt(values.at(name)), quoted(*run),
                    words_on_inputs(*reference, *run));
    if (agreement.contradiction.empty()) agreement.contradiction = words;
    agreement.excluded.push_back({run->path, "its result contradicts the others: " + words});
  }
}

/// Adds a note for each state of the input files other than the usual one.
void note_inputs(const std::vector<RunFile>& runs, bool is_strong, Agreement& agreement) {
  const auto state = [](const RunFile& run) {
    std::string text;
    for (const io::InputFile& file : run.inputs) {
      text += fmt::format("{}\n{}\n{} {}\n", file.path.string(), file.dataset, file.size,
                          file.modified);
    }
    return text;
  };
  Runs all;
  for (const RunFile& run : runs) all.push_back(&run);
  if (all.empty()) return;
  const RunFile& usual = *most_common(all, state);
  std::map<std::string, Runs> others;
  for (const RunFile* run : all) {
    if (state(*run) != state(usual)) others[state(*run)].push_back(run);
  }
  for (const auto& [ignored, group] : others) {
    const RunFile& run = *group.front();
    const std::size_t more = group.size() - 1;
    agreement.notes.push_back(fmt::format(
        "{}{}: {}", difference_of(usual.inputs, run.inputs, in(usual), in(run)),
        more > 0 ? fmt::format(" and {}", counted(more, "other launch")) : "",
        is_strong ? "the results agree"
                  : "results of the same size agree, those of different sizes cannot be compared"));
  }
}

}  // namespace

Agreement remove_contradictions(std::vector<RunFile>& runs, bool is_strong) {
  Agreement agreement;
  std::map<std::uint64_t, Runs> groups;  // by size in a weak study
  for (const RunFile& run : runs) groups[is_strong ? 0 : run.size.ranks].push_back(&run);
  for (const auto& [ranks, group] : groups) compare(group, agreement);
  std::erase_if(runs, [&](const RunFile& run) {
    return std::ranges::find(agreement.excluded, run.path, &ExcludedFile::path) !=
           agreement.excluded.end();
  });
  if (!agreement.contradiction.empty()) {
    agreement.contradiction =
        fmt::format("results contradict each other, {}: {}",
                    agreement.excluded.size() == 1
                        ? "and 1 launch is excluded"
                        : fmt::format("and {} launches are excluded", agreement.excluded.size()),
                    agreement.contradiction);
  }
  note_inputs(runs, is_strong, agreement);
  return agreement;
}

}  // namespace shardstream::report
