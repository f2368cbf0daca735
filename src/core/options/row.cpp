#include "core/options/row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"

namespace shardstream::options {
namespace {

/// The parts of OptionRow::range.
struct Limits {
  bool admits_auto = false;
  std::string_view min;  ///< empty if there is no bound
  std::string_view max;
  std::vector<std::string_view> choices;  ///< without auto
  std::string_view other_names;
};

Limits read_limits(const OptionRow& row) {
  constexpr std::string_view auto_prefix = "auto|";
  std::string_view rest = row.range;
  Limits limits;
  limits.other_names = row.other_names;
  limits.admits_auto = row.fallback == "auto" || rest == "auto" || rest.starts_with(auto_prefix);
  if (rest == "auto") rest = {};
  if (rest.starts_with(auto_prefix)) rest.remove_prefix(auto_prefix.size());

  if (const auto dots = rest.find(".."); dots != rest.npos) {
    limits.min = rest.substr(0, dots);
    limits.max = rest.substr(dots + 2);
  } else if (!rest.empty()) {
    limits.choices = split(rest, '|');
  }
  return limits;
}

bool is_bounded(const Limits& limits) {
  return !limits.min.empty() || !limits.max.empty();
}

/// "in 1..4096", "of at least 1MiB", "of at most 8"; without bounds, "such as EXAMPLE".
std::string describe_bounds(const Limits& limits, std::string_view example) {
  if (!is_bounded(limits)) return fmt::format("such as {}", example);
  if (limits.max.empty()) return fmt::format("of at least {}", limits.min);
  if (limits.min.empty()) return fmt::format("of at most {}", limits.max);
  return fmt::format("in {}..{}", limits.min, limits.max);
}

/// A choice may have arguments: "f(X,X)" is the choice of "f(1)" and of "f(1,2,3)".
bool is_choice(std::string_view choice, std::string_view text) {
  const std::size_t open = choice.find('(');
  if (open == choice.npos) return text == choice;
  return text.starts_with(choice.substr(0, open + 1)) && text.ends_with(')');
}

void check_choice(const Limits& limits, std::string_view text) {
  std::vector<std::string_view> known = limits.choices;
  const auto matches = [&](std::string_view choice) { return is_choice(choice, text); };
  if (std::any_of(known.begin(), known.end(), matches)) return;
  if (limits.admits_auto) known.push_back("auto");
  throw UsageError(fmt::format("{} is not among the choices{}", excerpt(text),
                               did_you_mean(meant_choice(text, known, limits.other_names))));
}

template <auto parse>
void check_bounds(const Limits& limits, std::string_view text) {
  const auto value = parse(text);
  if (!limits.min.empty() && value < parse(limits.min)) {
    throw UsageError(fmt::format("{} is below {}", excerpt(text), limits.min));
  }
  if (!limits.max.empty() && value > parse(limits.max)) {
    throw UsageError(fmt::format("{} is above {}", excerpt(text), limits.max));
  }
}

void check_parentheses(std::string_view item) {
  const auto opened = std::count(item.begin(), item.end(), '(');
  const auto closed = std::count(item.begin(), item.end(), ')');
  if (opened == closed) return;
  throw UsageError(fmt::format("{} has a parenthesis that is not {}", excerpt(item),
                               opened > closed ? "closed" : "opened"));
}

void check_list(const Limits& limits, std::string_view text) {
  if (trim(text).empty()) throw UsageError("the list is empty");
  std::set<std::string> seen;
  for (const std::string_view item : list_items(text)) {
    if (item.empty()) throw UsageError(fmt::format("{} has an empty item", excerpt(text)));
    check_parentheses(item);
    std::string value(item);
    if (is_bounded(limits)) {
      check_bounds<parse_count>(limits, item);
      value = fmt::format("{}", parse_count(item));  // 4 and 2^2 are one item
    } else if (!limits.choices.empty()) {
      check_choice(limits, item);
    }
    if (!seen.insert(value).second)
      throw UsageError(fmt::format("{} is listed twice", excerpt(item)));
  }
}

/// The properties in which the kinds of options differ.
struct Kind {
  std::string_view value_name;  ///< in --help
  std::string_view noun;        ///< empty if the kind has no bounds
  std::string_view example;
  void (*check)(const Limits& limits, std::string_view text);
};

const Kind& kind_of(const OptionRow& row) {
  static constexpr auto check_flag = [](const Limits&, std::string_view text) { parse_flag(text); };
  static constexpr Kind kinds[] = {
      // in the order of OptionKind
      {"TEXT", "", "", [](const Limits&, std::string_view) {}},
      {"FLAG", "", "", check_flag},
      {"CHOICE", "", "", check_choice},
      {"LIST", "", "", check_list},
      {"COUNT", "a count", "2^24", check_bounds<parse_count>},
      {"NUMBER", "a number", "0.5", check_bounds<parse_number>},
      {"SIZE", "a size", "64MiB", check_bounds<parse_size>},
      {"DURATION", "a duration", "30s", check_bounds<parse_duration>},
  };
  return kinds[static_cast<std::size_t>(row.kind)];
}

}  // namespace

std::optional<bool> flag_of(std::string_view text) {
  if (text == "true" || text == "yes" || text == "on" || text == "1") return true;
  if (text == "false" || text == "no" || text == "off" || text == "0") return false;
  return std::nullopt;
}

bool parse_flag(std::string_view text) {
  if (const auto flag = flag_of(text)) return *flag;
  throw UsageError(fmt::format("{} is neither true nor false", excerpt(text)));
}

std::string_view value_name(const OptionRow& row) {
  return kind_of(row).value_name;
}

std::string describe(const OptionRow& row) {
  if (row.kind == OptionKind::text) return row.range.empty() ? "text" : std::string(row.range);
  const Limits limits = read_limits(row);
  const Kind& kind = kind_of(row);
  const std::string choices = fmt::format("of {}", join(limits.choices, ", "));
  std::string values;
  if (row.kind == OptionKind::flag) {
    values = "true or false";
  } else if (row.kind == OptionKind::choice) {
    values = "one " + choices;
  } else if (row.kind != OptionKind::list) {
    values = fmt::format("{} {}", kind.noun, describe_bounds(limits, kind.example));
  } else if (is_bounded(limits)) {
    values = fmt::format("one or more counts {}, separated by commas", describe_bounds(limits, ""));
  } else {
    values = "one or more " +
             (limits.choices.empty() ? std::string("words, separated by commas") : choices);
  }
  return limits.admits_auto ? values + ", or auto" : values;
}

void check_value(const OptionRow& row, std::string_view text) {
  const Limits limits = read_limits(row);
  if (limits.admits_auto && text == "auto") return;
  if (row.kind == OptionKind::choice && text.empty() && row.fallback.empty()) return;  // no default
  kind_of(row).check(limits, text);
}

std::string environment_name(std::string_view key) {
  std::string name(environment_prefix);
  for (const char c : key) {
    const bool is_lower = c >= 'a' && c <= 'z';
    name += c == '.' || c == '-' ? '_' : is_lower ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

const OptionRow* find_row(const std::vector<OptionRow>& rows, std::string_view key) {
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const OptionRow& each) { return each.key == key; });
  return row == rows.end() ? nullptr : &*row;
}

bool is_among(std::string_view key, std::span<const std::string_view> names) {
  const std::string_view section = key.substr(0, key.find('.'));
  return std::ranges::any_of(names, [&](auto name) { return name == key || name == section; });
}

std::string_view nearest_key(const std::vector<OptionRow>& rows, std::string_view word) {
  std::vector<std::string_view> keys;
  for (const OptionRow& row : rows) {
    const std::size_t dot = row.key.find('.');
    if (row.key.substr(dot + 1) == word || row.key.substr(0, dot) == word) return row.key;
    keys.push_back(row.key);
  }
  return nearest(word, keys);
}

void check_row(const OptionRow& row) {
  const auto fail = [&](std::string_view why) {
    throw ContractError(fmt::format("option '{}' is badly declared: {}", row.key, why));
  };
  const auto dot = row.key.find('.');
  if (dot == 0 || dot == row.key.npos || dot + 1 == row.key.size()) fail("not section.name");

  const Limits limits = read_limits(row);
  if (!kind_of(row).noun.empty() && !limits.choices.empty()) fail("its range is not MIN..MAX");
  if (row.kind == OptionKind::choice && limits.choices.empty()) fail("it has no choices");
  for (const std::string_view pair : split(row.other_names, ' ')) {
    const std::string_view name = pair.substr(std::min(pair.find('=') + 1, pair.size()));
    if (!pair.empty() && std::ranges::find(limits.choices, name) == limits.choices.end()) {
      fail("it has other names of an unknown choice");
    }
  }
  try {
    check_value(row, row.fallback);
    if (!limits.min.empty()) check_value(row, limits.min);
    if (!limits.max.empty()) check_value(row, limits.max);
  } catch (const UsageError& error) {
    fail(error.what());
  }
}

}  // namespace shardstream::options
