// In the order of a value's way: its row's range, the three sources, the merge, and the help.
#include "core/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"

namespace shardstream {
namespace {

namespace po = boost::program_options;
using Values = std::map<std::string, Options::Value, std::less<>>;

constexpr std::string_view from_command_line = "command line";
constexpr std::string_view from_environment = "environment";
constexpr std::string_view from_default = "default";

// ---------------------------------------------------------------- one row: what it admits

/// OptionRow::range, taken apart.
struct Limits {
  bool admits_auto = false;
  std::string_view least;  ///< empty: no bound
  std::string_view most;
  std::vector<std::string_view> choices;  ///< without auto
};

Limits read_limits(const OptionRow& row) {
  constexpr std::string_view auto_prefix = "auto|";
  std::string_view rest = row.range;
  Limits limits;
  limits.admits_auto = row.fallback == "auto" || rest == "auto" || rest.starts_with(auto_prefix);
  if (rest == "auto") rest = {};
  if (rest.starts_with(auto_prefix)) rest.remove_prefix(auto_prefix.size());

  if (const auto dots = rest.find(".."); dots != rest.npos) {
    limits.least = rest.substr(0, dots);
    limits.most = rest.substr(dots + 2);
  } else if (!rest.empty()) {
    limits.choices = split(rest, '|');
  }
  return limits;
}

bool is_bounded(const Limits& limits) {
  return !limits.least.empty() || !limits.most.empty();
}

/// "in 1..4096", "of at least 1MiB", "of at most 8"; without bounds, "such as EXAMPLE".
std::string describe_bounds(const Limits& limits, std::string_view example) {
  if (!is_bounded(limits)) return fmt::format("such as {}", example);
  if (limits.most.empty()) return fmt::format("of at least {}", limits.least);
  if (limits.least.empty()) return fmt::format("of at most {}", limits.most);
  return fmt::format("in {}..{}", limits.least, limits.most);
}

std::string did_you_mean(std::string_view meant) {
  return meant.empty() ? "" : fmt::format(" (did you mean {}?)", meant);
}

/// Nothing where it is no value of a flag.
std::optional<bool> flag_of(std::string_view text) {
  if (text == "true" || text == "yes" || text == "on" || text == "1") return true;
  if (text == "false" || text == "no" || text == "off" || text == "0") return false;
  return std::nullopt;
}

bool parse_flag(std::string_view text) {
  if (const auto flag = flag_of(text)) return *flag;
  throw UsageError(fmt::format("{} is neither true nor false", excerpt(text)));
}

void check_choice(const Limits& limits, std::string_view text) {
  std::vector<std::string_view> known = limits.choices;
  if (std::find(known.begin(), known.end(), text) != known.end()) return;
  if (limits.admits_auto) known.push_back("auto");
  throw UsageError(fmt::format("{} is not among the choices{}", excerpt(text),
                               did_you_mean(nearest(text, known))));
}

template <auto parse>
void check_bounds(const Limits& limits, std::string_view text) {
  const auto value = parse(text);
  if (!limits.least.empty() && value < parse(limits.least)) {
    throw UsageError(fmt::format("{} is below {}", excerpt(text), limits.least));
  }
  if (!limits.most.empty() && value > parse(limits.most)) {
    throw UsageError(fmt::format("{} is above {}", excerpt(text), limits.most));
  }
}

void check_list(const Limits& limits, std::string_view text) {
  if (trim(text).empty()) throw UsageError("the list is empty");
  std::set<std::string> seen;
  for (const std::string_view item : split(text, ',')) {
    if (item.empty()) throw UsageError(fmt::format("{} has an empty item", excerpt(text)));
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

/// What the kinds of options differ in.
struct Kind {
  std::string_view word;  ///< for a value, in --help
  std::string_view noun;  ///< empty if the kind has no bounds
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

/// What a user may give, as the end of a sentence.
std::string describe(const OptionRow& row) {
  if (row.kind == OptionKind::text) return row.range.empty() ? "text" : std::string(row.range);
  const Limits limits = read_limits(row);
  const Kind& kind = kind_of(row);
  const std::string choices = fmt::format("of {}", join(limits.choices, ", "));
  std::string what;
  if (row.kind == OptionKind::flag) {
    what = "true or false";
  } else if (row.kind == OptionKind::choice) {
    what = "one " + choices;
  } else if (row.kind != OptionKind::list) {
    what = fmt::format("{} {}", kind.noun, describe_bounds(limits, kind.example));
  } else if (is_bounded(limits)) {
    what = fmt::format("one or more counts {}, separated by commas", describe_bounds(limits, ""));
  } else {
    what = "one or more " +
           (limits.choices.empty() ? std::string("words, separated by commas") : choices);
  }
  return limits.admits_auto ? what + ", or auto" : what;
}

/// Throws UsageError, saying only what is wrong with `text`. A text's range is for --help alone.
void check_value(const OptionRow& row, std::string_view text) {
  const Limits limits = read_limits(row);
  if (limits.admits_auto && text == "auto") return;
  if (row.kind == OptionKind::choice && text.empty() && row.fallback.empty()) return;  // no default
  kind_of(row).check(limits, text);
}

// ---------------------------------------------------------------- all rows: names

constexpr std::string_view environment_prefix = "SHARDSTREAM_";

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

/// The key that was meant, or nothing. A bare "file" means "output.file".
std::string_view nearest_key(const std::vector<OptionRow>& rows, std::string_view word) {
  std::vector<std::string_view> keys;
  for (const OptionRow& row : rows) {
    if (row.key.substr(row.key.find('.') + 1) == word) return row.key;
    keys.push_back(row.key);
  }
  return nearest(word, keys);
}

/// A row is the program's own: what is wrong with it is a defect, and shows in every start.
void check_row(const OptionRow& row) {
  const auto fail = [&](std::string_view why) {
    throw ContractError(fmt::format("option '{}' is badly declared: {}", row.key, why));
  };
  const auto dot = row.key.find('.');
  if (dot == 0 || dot == row.key.npos || dot + 1 == row.key.size()) fail("not section.name");

  const Limits limits = read_limits(row);
  if (!kind_of(row).noun.empty() && !limits.choices.empty()) fail("its range is not least..most");
  if (row.kind == OptionKind::choice && limits.choices.empty()) fail("it has no choices");
  try {
    check_value(row, row.fallback);
    if (!limits.least.empty()) check_value(row, limits.least);
    if (!limits.most.empty()) check_value(row, limits.most);
  } catch (const UsageError& error) {
    fail(error.what());
  }
}

// ---------------------------------------------------------------- the command line

using Words = std::span<const std::string_view>;

/// What a command takes beside the options of all rooms.
struct OwnWords {
  Words switches, settings;
};

bool contain(Words words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

[[noreturn]] void fail_unknown_option(const std::vector<OptionRow>& rows, std::string_view token,
                                      const OwnWords& own = {}) {
  const std::string_view option = token.substr(0, token.find('='));
  const std::string_view word =
      option.substr(std::min(option.find_first_not_of('-'), option.size()));
  std::vector<std::string_view> own_words(own.switches.begin(), own.switches.end());
  own_words.insert(own_words.end(), own.settings.begin(), own.settings.end());
  std::string_view meant = nearest(word, own_words);
  if (meant.empty()) meant = nearest_key(rows, word);
  throw UsageError(fmt::format("unknown option {}{}", excerpt(option),
                               did_you_mean(meant.empty() ? "" : fmt::format("--{}", meant))));
}

[[noreturn]] void fail_no_value(const std::vector<OptionRow>& rows, std::string_view option) {
  const std::string_view key = option == "-o" ? "output.file" : option.substr(2);
  const OptionRow* row = find_row(rows, key);
  throw UsageError(fmt::format("{} needs a value: {}", printable(option),
                               row == nullptr ? "text" : describe(*row)));
}

[[noreturn]] void fail_value_of_switch(std::string_view option, std::string_view value) {
  throw UsageError(fmt::format("{} takes no value, and {} is given: pass {} alone, or leave it out",
                               option, excerpt(value), option));
}

/// "-5" and "-.5" are values; a lone "-" is a file's name by custom.
bool looks_like_option(std::string_view token) {
  if (token.size() < 2 || token[0] != '-') return false;
  return token[1] != '.' && (token[1] < '0' || token[1] > '9');
}

/// A flag may stand alone: gives each that does its value, true, and joins the others with theirs.
std::vector<std::string> with_flags_joined(const std::vector<OptionRow>& rows,
                                           const std::vector<std::string>& arguments) {
  std::vector<std::string> joined;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const OptionRow* const row =
        word.starts_with("--") ? find_row(rows, std::string_view(word).substr(2)) : nullptr;
    if (row == nullptr || row->kind != OptionKind::flag) {
      joined.push_back(word);
      continue;
    }
    const bool has_value =
        i + 1 < arguments.size() && (arguments[i + 1] == "true" || arguments[i + 1] == "false");
    joined.push_back(fmt::format("{}={}", word, has_value ? arguments[++i] : "true"));
  }
  return joined;
}

po::options_description boost_options(const std::vector<OptionRow>& rows, const OwnWords& own) {
  po::options_description options;
  for (const OptionRow& row : rows) {
    const std::string names = std::string(row.key) + (row.key == "output.file" ? ",o" : "");
    options.add_options()(names.c_str(), po::value<std::string>(), "");
  }
  for (const auto each : own.switches) options.add_options()(std::string(each).c_str(), "");
  for (const auto each : own.settings) {
    options.add_options()(std::string(each).c_str(), po::value<std::string>(), "");
  }
  return options;
}

/// The options and words in their order. Unknown options come back marked, so that the message can
/// be ours.
std::vector<po::option> boost_parse(const std::vector<OptionRow>& rows, const OwnWords& own,
                                    const std::vector<std::string>& arguments) {
  namespace style = po::command_line_style;
  const po::options_description options = boost_options(rows, own);
  try {
    return po::command_line_parser(arguments)
        .options(options)
        .style(style::allow_long | style::long_allow_adjacent | style::long_allow_next |
               style::allow_short | style::allow_dash_for_short | style::short_allow_adjacent |
               style::short_allow_next)
        .allow_unregistered()
        .run()
        .options;
  } catch (const po::invalid_command_line_syntax& error) {
    if (error.kind() == po::invalid_syntax::extra_parameter) {
      const std::string option = error.get_option_name(), start = option + '=';
      const auto token = std::ranges::find_if(
          arguments, [&](const std::string& each) { return each.starts_with(start); });
      expect(token != arguments.end(), "a value that is too much stands behind a =");
      fail_value_of_switch(option, std::string_view(*token).substr(start.size()));
    }
    fail_no_value(rows, error.get_option_name());
  } catch (const po::error& error) {
    throw UsageError(error.what());
  }
}

// ---------------------------------------------------------------- the environment

/// Null if no option has this variable.
const OptionRow* row_of_variable(const std::vector<OptionRow>& rows, std::string_view name) {
  const auto row = std::ranges::find_if(
      rows, [&](const OptionRow& each) { return environment_name(each.key) == name; });
  return row == rows.end() ? nullptr : &*row;
}

std::string warning_of_variable(const std::vector<OptionRow>& rows, std::string_view name) {
  std::vector<std::string> names;
  for (const OptionRow& row : rows) names.push_back(environment_name(row.key));
  // Compared without the prefix: it would make every name look alike.
  std::vector<std::string_view> ends;
  ends.reserve(names.size());
  for (const std::string_view each : names) ends.push_back(each.substr(environment_prefix.size()));
  const std::string_view meant = nearest(name.substr(environment_prefix.size()), ends);
  const std::string full = meant.empty() ? "" : fmt::format("{}{}", environment_prefix, meant);
  return fmt::format("the environment variable {} is ignored, since no option has that name{}",
                     excerpt(name), did_you_mean(full));
}

/// What steers the tests is no option of the program's.
bool is_for_tests(std::string_view entry) {
  return entry.starts_with("SHARDSTREAM_TEST_") || entry.starts_with("SHARDSTREAM_REQUIRE_GPU=");
}

/// Unknown variables become warnings: sites set SHARDSTREAM_ROOT and the like.
void read_environment(const std::vector<OptionRow>& rows, const char* const* environment,
                      Values& values, std::vector<std::string>& warnings) {
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const auto equals = entry.find('=');
    if (!entry.starts_with(environment_prefix) || is_for_tests(entry) || equals == entry.npos) {
      continue;
    }
    const OptionRow* const row = row_of_variable(rows, entry.substr(0, equals));
    if (row == nullptr) {
      warnings.push_back(warning_of_variable(rows, entry.substr(0, equals)));
      continue;
    }
    values[std::string(row->key)] = {std::string(entry.substr(equals + 1)),
                                     std::string(from_environment)};
  }
}

// ---------------------------------------------------------------- the INI file

/// Reads an INI file through Boost's parser, one assignment at a time under its section's header:
/// so every error has its line. What Boost would spoil is kept from it: byte-order mark, comments,
/// and every '#' in a value, which it takes for a comment; quotes are taken off behind it. Its
/// guessing of prefixes happens in po::store, which is not used.
class IniReader {
 public:
  IniReader(const std::vector<OptionRow>& rows, const std::filesystem::path& file)
      : rows_(rows), file_(file.string()) {}

  /// Adds every value of the file.
  void read(Values& values) {
    std::ifstream in = open();
    for (std::string text; std::getline(in, text);) {
      ++line_;
      std::string_view line = text;
      constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
      if (line_ == 1 && line.starts_with(byte_order_mark)) {
        line.remove_prefix(byte_order_mark.size());
      }
      line = trim(line);
      refuse_control_characters(line);
      line = trim(line.substr(0, comment_start(line)));
      if (line.starts_with('[')) {
        enter_section(line);
      } else if (!line.empty()) {
        assign(std::string(line), values);
      }
    }
    if (in.bad()) throw UsageError(fmt::format("'{}' could not be read to its end", file_));
  }

 private:
  static constexpr std::uintmax_t most = 1 << 20;  // bytes; of more, it was not meant
  static constexpr char hidden_hash = '\x1f';  // refuse_control_characters keeps it out of files

  [[noreturn]] void fail(std::string_view why) const {
    throw UsageError(fmt::format("{}:{}: {}", file_, line_, why));
  }

  std::ifstream open() const {
    std::error_code ignored;  // any doubt ends in "cannot be opened"
    if (!std::filesystem::exists(file_, ignored)) {
      throw UsageError(fmt::format("there is no file '{}': name an INI file that exists", file_));
    }
    if (std::filesystem::is_directory(file_, ignored)) {
      throw UsageError(fmt::format("'{}' is a directory: name an INI file", file_));
    }
    if (const auto bytes = std::filesystem::file_size(file_, ignored); !ignored && bytes > most) {
      throw UsageError(fmt::format("'{}' has {}: name an INI file, which has {} at the most", file_,
                                   format_size(bytes), format_size(most)));
    }
    std::ifstream in(file_, std::ios::binary);
    if (!in) throw UsageError(fmt::format("'{}' cannot be opened: may you read it?", file_));
    return in;
  }

  /// Most data files given for an INI file show here, before their bytes reach a terminal.
  void refuse_control_characters(std::string_view line) const {
    const bool is_text = std::all_of(line.begin(), line.end(), [](char c) {
      return static_cast<unsigned char>(c) >= 0x20 || c == '\t';
    });
    if (!is_text) fail("not a line of text: an INI file holds lines of 'key = value'");
  }

  /// Where a comment begins: a '#' or ';' at the line's start or after white space. A quote that
  /// opens the value protects them; one inside a value is an apostrophe.
  std::size_t comment_start(std::string_view line) const {
    const auto equals = line.find('=');
    const std::size_t value =
        equals == line.npos ? line.npos : line.find_first_not_of(" \t", equals + 1);
    char quote = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      const bool is_mark = c == '#' || c == ';';
      if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (is_mark && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) {
        return i;
      } else if (i == value && (c == '"' || c == '\'')) {
        quote = c;
      }
    }
    if (quote != 0) fail(fmt::format("the quote {} is not closed", excerpt(line.substr(value))));
    return line.npos;
  }

  void enter_section(std::string_view line) {
    const std::string_view name = trim(line.substr(1, line.size() - 2));
    if (!line.ends_with(']') || name.empty()) {
      fail(fmt::format("{} is no section: write [name]", excerpt(line)));
    }
    section_ = fmt::format("[{}]\n", name);
  }

  void assign(std::string line, Values& values) {
    std::replace(line.begin(), line.end(), '#', hidden_hash);
    std::istringstream lines(section_ + line);
    std::vector<po::option> parsed;
    try {
      parsed = po::parse_config_file(lines, po::options_description(), true).options;
    } catch (const po::error&) {
      std::replace(line.begin(), line.end(), hidden_hash, '#');
      fail(fmt::format("{} is neither [section] nor key = value", excerpt(line)));
    }
    expect(parsed.size() == 1, "one line of an INI file is one assignment");
    const std::string key = restored(parsed[0].string_key);
    if (find_row(rows_, key) == nullptr) {
      fail(fmt::format("unknown key {}{}", excerpt(key), did_you_mean(nearest_key(rows_, key))));
    }
    const std::string value = unquoted(restored(parsed[0].value.at(0)));
    const auto [first, is_new] = line_of_.emplace(key, line_);
    if (!is_new) {
      fail(fmt::format("'{}' is given twice, as {} at line {} and as {} here: keep one", key,
                       excerpt(values.at(key).text), first->second, excerpt(value)));
    }
    values[key] = {value, fmt::format("{}:{}", file_, line_)};
  }

  static std::string restored(std::string text) {
    std::replace(text.begin(), text.end(), hidden_hash, '#');
    return text;
  }

  /// Without the quotes round the whole of it; "a" "b" stays as it is.
  static std::string unquoted(const std::string& text) {
    const bool quoted = text.size() >= 2 && (text[0] == '"' || text[0] == '\'') &&
                        text.find(text[0], 1) == text.size() - 1;
    return quoted ? text.substr(1, text.size() - 2) : text;
  }

  const std::vector<OptionRow>& rows_;
  std::string file_;
  std::size_t line_ = 0;
  std::string section_;  ///< the header line in force, or nothing
  std::map<std::string, std::size_t> line_of_;
};

// ---------------------------------------------------------------- the merge

/// How an error names the option: as the user wrote it, where the user wrote it.
std::string subject(const OptionRow& row, std::string_view origin) {
  if (origin == from_command_line) return fmt::format("--{}", row.key);
  if (origin == from_environment) {
    return fmt::format("{} (from the environment, {})", row.key, environment_name(row.key));
  }
  return fmt::format("{}: {}", origin, row.key);
}

void check_effective(const OptionRow& row, const Options::Value& value) {
  try {
    check_value(row, value.text);
  } catch (const UsageError& error) {
    throw UsageError(
        fmt::format("{}: {}; give {}", subject(row, value.origin), error.what(), describe(row)));
  }
}

// ---------------------------------------------------------------- the help

std::string help_left(const OptionRow& row) {
  const std::string_view short_form = row.key == "output.file" ? "-o, " : "";
  return fmt::format("  {}--{} {}", short_form, row.key, kind_of(row).word);
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
  if (value == values.end()) throw ContractError(fmt::format("no room declares option {}", key));
  return value->second;
}

/// For the readers of numbers: whoever asks for one has asked is_auto() before.
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
  return parse_flag(find_number(values_, key));
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
  const std::vector<std::string_view> items = split(text(key), ',');
  return {items.begin(), items.end()};
}

OptionTable::OptionTable(const std::vector<std::span<const OptionRow>>& rooms) {
  for (const auto& room : rooms) rows_.insert(rows_.end(), room.begin(), room.end());

  std::set<std::string> names;  // of the environment: "a.b-c" and "a.b.c" would share one
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
      throw ContractError(fmt::format("no room declares option {}", row.key));
    }
    check_row(row);
    *place = row;
  }
  return table;
}

CommandLine OptionTable::parse_command_line(const std::vector<std::string>& arguments,
                                            Words switches, Words settings) const {
  const OwnWords own{switches, settings};
  CommandLine result;
  std::string last_switch;  // if it is what stands before
  for (const po::option& option : boost_parse(rows_, own, with_flags_joined(rows_, arguments))) {
    const std::vector<std::string>& tokens = option.original_tokens;
    const std::string before = std::exchange(last_switch, {});
    if (option.position_key >= 0) {
      // Boost makes the word "x" of "--=x".
      if (tokens != option.value) fail_unknown_option(rows_, tokens.at(0), own);
      const std::string& word = option.value.at(0);
      if (!before.empty() && flag_of(word)) fail_value_of_switch(before, word);
      result.words.insert(result.words.end(), option.value.begin(), option.value.end());
      continue;
    }
    if (option.unregistered) fail_unknown_option(rows_, tokens.at(0), own);
    // Boost takes whatever follows for the value, other options too.
    if (tokens.size() > 1 && looks_like_option(tokens[1])) fail_no_value(rows_, tokens[0]);
    const std::string& key = option.string_key;
    if (contain(switches, key)) {
      result.switches.insert(key);
      last_switch = tokens.at(0);
      continue;
    }
    auto& values = contain(settings, key) ? result.settings : result.values;
    values[key] = option.value.at(0);
  }
  return result;
}

Options OptionTable::resolve(const CommandLine& command_line, const char* const* environment,
                             const std::optional<std::filesystem::path>& ini) const {
  Options options;
  Values& values = options.values_;  // each source overwrites the weaker ones before it
  for (const OptionRow& row : rows_) {
    values[std::string(row.key)] = {std::string(row.fallback), std::string(from_default)};
  }
  if (ini) IniReader(rows_, *ini).read(values);
  read_environment(rows_, environment, values, options.warnings_);
  for (const auto& [key, text] : command_line.values) {
    if (find_row(rows_, key) == nullptr) fail_unknown_option(rows_, "--" + key);
    values[key] = {text, std::string(from_command_line)};
  }
  for (const OptionRow& row : rows_) check_effective(row, find_value(values, row.key));
  return options;
}

std::string OptionTable::help(std::span<const std::string_view> wanted) const {
  std::vector<std::string_view> names = section_names(rows_);
  for (const OptionRow& row : rows_) names.push_back(row.key);
  for (const std::string_view name : wanted) {
    if (std::ranges::find(names, name) != names.end()) continue;
    throw UsageError(
        fmt::format("no option or section is '{}'{}", name, did_you_mean(nearest(name, names))));
  }
  const auto is_wanted = [&](const OptionRow& row) {
    return wanted.empty() || std::ranges::any_of(wanted, [&](std::string_view name) {
             return name == row.key || name == section_of(row);
           });
  };

  std::size_t column = 0;
  for (const OptionRow& row : rows_) column = std::max(column, help_left(row).size() + 3);
  std::string text;
  for (const std::string_view section : section_names(rows_)) {
    std::string block;
    for (const OptionRow& row : rows_) {
      if (section_of(row) != section || !is_wanted(row)) continue;
      block += wrapped(help_left(row), help_right(row), column);
    }
    if (!block.empty()) text += fmt::format("{}{}:\n{}", text.empty() ? "" : "\n", section, block);
  }
  return text;
}

}  // namespace shardstream
