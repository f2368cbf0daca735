// The merge of the three sources, access to the values, and the help.
#include "core/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "core/error.hpp"
#include "core/options/command_line.hpp"
#include "core/options/environment.hpp"
#include "core/options/ini_file.hpp"
#include "core/options/row.hpp"
#include "core/text.hpp"
#include "core/units.hpp"

namespace shardstream {
namespace {

using options::check_row;
using options::describe;
using options::environment_name;
using options::find_row;
using options::from_command_line;
using options::from_default;
using options::from_environment;
using options::Values;

// ---------------------------------------------------------------- the merge

/// The name of the option in an error, as the user wrote it and with its origin.
std::string subject(const OptionRow& row, std::string_view origin) {
  if (origin == from_command_line) return fmt::format("--{}", row.key);
  if (origin == from_environment) {
    return fmt::format("{} (from the environment, {})", row.key, environment_name(row.key));
  }
  return fmt::format("{}: {}", origin, row.key);
}

void check_effective(const OptionRow& row, const Options::Value& value) {
  try {
    options::check_value(row, value.text);
  } catch (const UsageError& error) {
    throw UsageError(
        fmt::format("{}: {}; give {}", subject(row, value.origin), error.what(), describe(row)));
  }
}

// ---------------------------------------------------------------- the help

std::string help_left(const OptionRow& row) {
  const std::string_view short_form = row.key == "output.file" ? "-o, " : "";
  return fmt::format("  {}--{} {}", short_form, row.key, options::value_name(row));
}

std::string help_right(const OptionRow& row) {
  const std::string range = describe(row);
  return fmt::format("{} (default: {}{})", row.sentence,
                     row.fallback.empty() ? "none" : row.fallback,
                     range == "text" ? "" : "; " + range);
}

std::string_view section_of(const OptionRow& row) {
  return row.key.substr(0, row.key.find('.'));
}

/// Every section once, in the order of its first row.
std::vector<std::string_view> section_names(const std::vector<OptionRow>& rows) {
  std::vector<std::string_view> names;
  for (const OptionRow& row : rows) {
    const std::string_view name = section_of(row);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

const Options::Value& find_value(const Values& values, std::string_view key) {
  const auto value = values.find(key);
  if (value == values.end())
    throw ContractError(fmt::format("no component declares option {}", key));
  return value->second;
}

/// For readers of numbers, whose callers must check is_auto() first.
const std::string& find_number(const Values& values, std::string_view key) {
  const std::string& text = find_value(values, key).text;
  if (text == "auto") throw ContractError(fmt::format("option {} is auto, not a value", key));
  return text;
}

}  // namespace

const std::string& Options::text(std::string_view key) const {
  return find_value(values_, key).text;
}

bool Options::is_auto(std::string_view key) const {
  return text(key) == "auto";
}

bool Options::is_default(std::string_view key) const {
  return find_value(values_, key).origin == from_default;
}

bool Options::is_on_command_line(std::string_view key) const {
  return find_value(values_, key).origin == from_command_line;
}

bool Options::flag(std::string_view key) const {
  return options::parse_flag(find_number(values_, key));
}

std::uint64_t Options::count(std::string_view key) const {
  return parse_count(find_number(values_, key));
}

double Options::number(std::string_view key) const {
  return parse_number(find_number(values_, key));
}

std::uint64_t Options::bytes(std::string_view key) const {
  return parse_size(find_number(values_, key));
}

double Options::seconds(std::string_view key) const {
  return parse_duration(find_number(values_, key));
}

std::vector<std::string> Options::list(std::string_view key) const {
  const std::vector<std::string_view> items = list_items(text(key));
  return {items.begin(), items.end()};
}

OptionTable::OptionTable(const std::vector<std::span<const OptionRow>>& components) {
  for (const auto& rows : components) rows_.insert(rows_.end(), rows.begin(), rows.end());

  std::set<std::string> names;  // of variables: "a.b-c" and "a.b.c" would have the same
  for (const OptionRow& row : rows_) {
    if (!names.insert(environment_name(row.key)).second) {
      throw ContractError(fmt::format("option {} is declared twice", row.key));
    }
    check_row(row);
  }
}

OptionTable OptionTable::with(std::span<const OptionRow> rows) const {
  OptionTable table = *this;
  for (const OptionRow& row : rows) {
    const auto place = std::ranges::find(table.rows_, row.key, &OptionRow::key);
    if (place == table.rows_.end()) {
      throw ContractError(fmt::format("no component declares option {}", row.key));
    }
    check_row(row);
    *place = row;
  }
  return table;
}

CommandLine OptionTable::parse_command_line(const std::vector<std::string>& arguments,
                                            std::span<const std::string_view> switches,
                                            std::span<const std::string_view> settings) const {
  return options::parse(rows_, arguments, {switches, settings});
}

Options OptionTable::resolve(const CommandLine& command_line, const char* const* environment,
                             const std::optional<std::filesystem::path>& ini) const {
  Options options;
  Values& values = options.values_;  // each source overwrites the weaker ones
  for (const OptionRow& row : rows_) {
    values[std::string(row.key)] = {std::string(row.fallback), std::string(from_default)};
  }
  if (ini) options::read_ini(rows_, *ini, values);
  options::read_environment(rows_, environment, values, options.warnings_);
  for (const auto& [key, text] : command_line.values) {
    if (find_row(rows_, key) == nullptr) options::fail_unknown_option(rows_, "--" + key);
    values[key] = {text, std::string(from_command_line)};
  }
  for (const OptionRow& row : rows_) check_effective(row, find_value(values, row.key));
  return options;
}

bool has_section(const std::filesystem::path& ini, std::string_view section) {
  const std::string header = fmt::format("[{}]", section);
  std::string text;
  try {
    text = options::read_ini_text(ini);
  } catch (const UsageError&) {
    return false;  // resolve() reports it
  }
  std::istringstream file(text);
  for (std::string line; std::getline(file, line);) {
    if (trim(std::string_view(line).substr(0, line.find('#'))) == header) return true;
  }
  return false;
}

std::string OptionTable::help(std::span<const std::string_view> wanted) const {
  std::vector<std::string_view> names = section_names(rows_);
  for (const OptionRow& row : rows_) names.push_back(row.key);
  for (const std::string_view name : wanted) {
    if (std::ranges::find(names, name) != names.end()) continue;
    throw UsageError(fmt::format("there is no option or section '{}'{}", name,
                                 did_you_mean(nearest(name, names))));
  }
  std::size_t column = 0;
  for (const OptionRow& row : rows_) column = std::max(column, help_left(row).size() + 3);
  std::string text;
  for (const std::string_view section : section_names(rows_)) {
    std::string block;
    for (const OptionRow& row : rows_) {
      if (section_of(row) != section) continue;
      if (!wanted.empty() && !options::is_among(row.key, wanted)) continue;
      block += wrapped(help_left(row), help_right(row), column);
    }
    if (!block.empty()) text += fmt::format("{}{}:\n{}", text.empty() ? "" : "\n", section, block);
  }
  return text;
}

}  // namespace shardstream
