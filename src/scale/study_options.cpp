#include "scale/study_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "report/study_ini.hpp"
#include "scale/options.hpp"

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

/// The values by key, as read_study_ini() returns them.
std::map<std::string, std::string> stored(const Values& values) {
  std::map<std::string, std::string> by_key;
  for (const auto& [key, value] : values) by_key[key] = report::stored_value(value);
  return by_key;
}

}  // namespace

Values chosen(const Options& options) {
  Values values;
  for (const auto& [key, value] : options.all()) {
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

std::string ini_of(const Values& values, const std::string& name) {
  std::string text =
      fmt::format("{}\n[study]\nname = {}\n", report::study_ini_mark, report::ini_value(name));
  std::string section;
  for (const auto& [key, value] : values) {
    const std::string of_key = key.substr(0, key.find('.'));
    if (of_key != section) text += fmt::format("\n[{}]\n", of_key);
    section = of_key;
    text += fmt::format("{} = {}\n", key.substr(section.size() + 1), report::ini_value(value));
  }
  return text;
}

std::string first_difference(std::map<std::string, std::string> then, const Values& now) {
  then.erase("study.name");
  std::map<std::string, std::string> current = stored(now);
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

bool extends(const std::map<std::string, std::string>& then, const Values& now) {
  const std::map<std::string, std::string> current = stored(now);
  std::map<std::string, std::string> expected = then;
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
