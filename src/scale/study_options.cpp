#include "scale/study_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "scale/scale_options.hpp"

namespace shardstream::scale {

namespace {

/// Two different texts for a message. If excerpt() would cut one, their common beginning is left
/// out.
std::pair<std::string, std::string> differing_parts(std::string_view a, std::string_view b) {
  if (std::max(a.size(), b.size()) <= max_excerpt) return {excerpt(a), excerpt(b)};
  constexpr std::ptrdiff_t context = 20;
  const auto differs = std::ranges::mismatch(a, b).in1 - a.begin();
  const auto start = static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, differs - context));
  return {"..." + excerpt(a.substr(start)), "..." + excerpt(b.substr(start))};
}

}  // namespace

OptionList chosen(const Options& options) {
  OptionList values;
  const bool is_of_program = !options.text("scale.command").empty();
  for (const auto& [key, value] : options.all()) {
    if (is_of_program && !key.starts_with("scale.")) continue;  // they are for other commands
    const bool is_needed_by_report = key == "scale.ranks" || key == "scale.replicates";
    if (key == "output.file" || key.starts_with("study.")) continue;  // each study has its own
    if (options.is_default(key) && !is_needed_by_report) continue;
    values.emplace_back(key, value.text);
  }
  return values;
}

OptionTable with_run_defaults(const OptionTable& table) {
  std::vector<OptionRow> rows;
  for (OptionRow row : table.rows()) {
    const auto changed = std::ranges::find(run_defaults, row.key, &RunDefault::key);
    if (changed == run_defaults.end()) continue;
    row.fallback = changed->value;
    rows.push_back(row);
  }
  return table.with(rows);
}

std::string first_difference(StoredOptions then, const OptionList& now) {
  then.erase("study.name");
  StoredOptions current = study_folder::stored(now);
  for (const auto* side : {&then, &current}) {
    for (const auto& [key, value] : *side) {
      const auto was = then.find(key), is = current.find(key);
      if (was == then.end())
        return fmt::format("{} was not given and is {} now", key, excerpt(value));
      if (is == current.end()) {
        return fmt::format("{} was {} and is not given now", key, excerpt(value));
      }
      if (was->second == is->second) continue;
      const auto [old, present] = differing_parts(was->second, is->second);
      return fmt::format("{} was {} and is {} now", key, old, present);
    }
  }
  return {};
}

bool extends(const StoredOptions& then, const OptionList& now) {
  const StoredOptions current = study_folder::stored(now);
  StoredOptions expected = then;
  for (const char* key : {"scale.ranks", "scale.replicates"}) {
    if (!then.contains(key) || !current.contains(key)) return false;
    expected[key] = current.at(key);
  }
  if (!first_difference(expected, now).empty()) return false;
  const auto old = parse_ranks(then.at("scale.ranks"));
  const auto ranks = parse_ranks(current.at("scale.ranks"));
  const auto mode = current.find("scale.mode");
  const bool is_weak = mode != current.end() && mode->second == "weak";
  return old.back() == ranks.back() && (!is_weak || old.front() == ranks.front()) &&
         std::ranges::includes(ranks, old) &&
         parse_count(current.at("scale.replicates")) >= parse_count(then.at("scale.replicates"));
}

}  // namespace shardstream::scale
