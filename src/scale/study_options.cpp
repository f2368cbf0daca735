#include "scale/study_options.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "scale/options.hpp"

namespace shardstream::scale {

Values chosen(const Options& options) {
  Values values;
  for (const auto& [key, value] : options.all()) {
    const bool is_needed_by_report = key == "scale.ranks" || key == "scale.replicates";
    if (key == "output.file" || (options.is_default(key) && !is_needed_by_report)) continue;
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
  std::string text = fmt::format(
      "# A scaling study; shardstream scale has written this file.\n"
      "[study]\nname = {}\n",
      name);
  std::string section;
  for (const auto& [key, value] : values) {
    const std::string of_key = key.substr(0, key.find('.'));
    if (of_key != section) text += fmt::format("\n[{}]\n", of_key);
    section = of_key;
    text += fmt::format("{} = {}\n", key.substr(section.size() + 1), value);
  }
  return text;
}

void write_study_ini(const std::filesystem::path& folder, const Values& values,
                     const std::string& name) {
  const std::filesystem::path path = folder / "study.ini";
  const std::filesystem::path part = folder / fmt::format(".study.ini.{}.part", getpid());
  std::ofstream file(part);
  file << ini_of(values, name);
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(part, path, error);
  if (!file || error) {
    throw UsageError(fmt::format("output.file: cannot write '{}'", path.string()));
  }
}

void expect_folder(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder) || std::filesystem::is_directory(folder)) return;
  throw UsageError(
      fmt::format("output.file: '{}' is a file, but a study needs a folder: name a "
                  "new folder with -o",
                  folder.string()));
}

bool has_results(const std::filesystem::path& folder) {
  std::error_code none;
  if (!std::filesystem::exists(folder / "study.ini")) return false;
  return std::ranges::any_of(std::filesystem::directory_iterator(folder, none),
                             [](const auto& entry) { return entry.path().extension() == ".h5"; });
}

std::string first_difference(std::map<std::string, std::string> then, const Values& now) {
  then.erase("study.name");
  std::map<std::string, std::string> current(now.begin(), now.end());
  const auto text = [](const std::map<std::string, std::string>& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? std::string("not given") : excerpt(found->second);
  };
  for (const auto* side : {&then, &current}) {
    for (const auto& [key, value] : *side) {
      const std::string was = text(then, key), is = text(current, key);
      if (was != is) return fmt::format("{} was {} and is {} now", key, was, is);
    }
  }
  return {};
}

bool extends(const std::map<std::string, std::string>& then, const Values& now) {
  const std::map<std::string, std::string> current(now.begin(), now.end());
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
