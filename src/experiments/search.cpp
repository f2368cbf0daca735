#include "experiments/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "core/error.hpp"
#include "core/table.hpp"
#include "core/text.hpp"
#include "experiments/catalogue.hpp"

namespace shardstream::experiments {
namespace {

std::string lower_text(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), lower);
  return result;
}

/// A field of an experiment with one of its sentences, titles or options.
struct Searched {
  std::string_view field;
  std::string text;
};

void add_sentences(std::vector<Searched>& all, const Text& text) {
  std::string_view rest = text.words;
  for (auto end = rest.find(". "); end != rest.npos; end = rest.find(". ")) {
    all.push_back({text.key, std::string(rest.substr(0, end + 1))});
    rest.remove_prefix(end + 2);
  }
  all.push_back({text.key, std::string(rest)});
}

std::vector<Searched> searched_of(const Experiment& experiment) {
  std::vector<Searched> all = {{"name", std::string(experiment.name)},
                               {"summary", std::string(experiment.summary)}};
  for (const Text& text : texts_of(experiment)) add_sentences(all, text);
  for (const OptionRow& row : experiment.options) {
    all.push_back({"options", fmt::format("--{}: {}", row.key, row.sentence)});
  }
  for (const Axis& axis : experiment.axes) {
    all.push_back({"axes", fmt::format("{}: {}", axis.name, axis.sentence)});
  }
  for (const Section& section : experiment.read_on) all.push_back({"read_on", title_of(section)});
  return all;
}

}  // namespace

std::vector<Match> matches_of(std::string_view words) {
  const std::string wanted = lower_text(trim(words));
  if (wanted.empty()) {
    throw UsageError("--search needs a word or more, as in --search coalesced");
  }
  const auto has_all = [parts = split(wanted, ' ')](const std::string& text) {
    return std::ranges::all_of(parts,
                               [&](std::string_view part) { return text.find(part) != text.npos; });
  };
  std::vector<Match> matches;
  for (const Experiment* experiment : all()) {
    std::string_view last;
    for (const auto& [field, text] : searched_of(*experiment)) {
      if (field == last || !has_all(lower_text(text))) continue;
      last = field;
      matches.push_back({experiment, std::string(field), text});
    }
  }
  if (matches.empty()) {
    std::vector<std::string_view> names;
    for (const Experiment* experiment : all()) names.push_back(experiment->name);
    throw UsageError(
        fmt::format("--search: no sentence has {}{}: try fewer words, a part of a word, or see "
                    "shardstream bench "
                    "--list",
                    excerpt(words), did_you_mean(nearest(wanted, names))));
  }
  return matches;
}

std::string search(std::string_view words, Printing printing) {
  const std::vector<Match> matches = matches_of(words);
  if (printing == Printing::none) return {};
  if (printing == Printing::json) {
    Table rows("matches", {{"name", ColumnType::text},
                           {"group", ColumnType::text},
                           {"field", ColumnType::text},
                           {"sentence", ColumnType::text}});
    for (const auto& [experiment, field, sentence] : matches) {
      rows.add({std::string(experiment->name), std::string(experiment->group), field, sentence});
    }
    return to_json(std::span(&rows, 1));
  }
  std::string text;
  const Experiment* last = nullptr;
  for (const auto& [experiment, field, sentence] : matches) {
    if (experiment != last) {
      text += fmt::format("{}{} ({})\n", last == nullptr ? "" : "\n", experiment->name,
                          experiment->group);
    }
    last = experiment;
    text += wrapped(fmt::format("  {:<13}", field), sentence, 15);
  }
  return text;
}

}  // namespace shardstream::experiments
