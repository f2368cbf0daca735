#include "report/comparison/measurements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/tokenizer.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "report/json_values.hpp"

namespace shardstream::report {
namespace {

namespace fs = std::filesystem;

enum class Kind { result, hyperfine, google_benchmark, csv, numbers };

const char* word_of(Kind kind) {
  switch (kind) {
    case Kind::result:
      return "no text file";
    case Kind::hyperfine:
      return "JSON of hyperfine";
    case Kind::google_benchmark:
      return "JSON of google-benchmark";
    case Kind::csv:
      return "a CSV table";
    case Kind::numbers:
      break;
  }
  return "a file with one number a line";
}

/// A file, and its contents once they are parsed.
struct Input {
  std::string path;
  Kind kind = Kind::result;
  std::vector<std::string> lines = {};  ///< of text
  Json json = {};
};

[[noreturn]] void fail(const std::string& path, const std::string& problem) {
  throw UsageError(fmt::format("{} {}", excerpt(path), problem));
}

/// The number in a text. `where` begins the sentence of an error: "line 3 of 'x.txt'".
double positive_number(std::string_view text, const std::string& where) {
  double value = 0;
  try {
    value = parse_number(text);
  } catch (const UsageError&) {
    value = 0;
  }
  if (value > 0) return value;
  throw UsageError(fmt::format("{} has {}: each value is a positive number", where, excerpt(text)));
}

// ---------------------------------------------------------------- JSON

/// Throws UsageError if the object has no such member.
const Json& member(const Json& object, const char* name, const std::string& where) {
  if (object.is_object() && object.contains(name)) return object[name];
  throw UsageError(fmt::format("{} has no '{}': write the file again", where, name));
}

std::string text_in(const Json& object, const char* name, const std::string& where) {
  const Json& found = member(object, name, where);
  if (found.is_string() && !found.get_ref<const std::string&>().empty()) return found;
  throw UsageError(fmt::format("'{}' of {} is no text: write the file again", name, where));
}

double positive_number(const Json& value, const std::string& where) {
  if (value.is_number() && value.get<double>() > 0) return value.get<double>();
  constexpr auto replace = Json::error_handler_t::replace;
  return positive_number(std::string_view(value.dump(-1, ' ', true, replace)), where);
}

const Json& list_in(const Input& input, const char* name) {
  const Json& list = input.json[name];
  if (list.empty()) fail(input.path, fmt::format("has no '{}': the list is empty", name));
  return list;
}

void read_hyperfine(const Input& input, CaseSide& side) {
  for (const Json& result : list_in(input, "results")) {
    const std::string where = fmt::format("a result in {}", excerpt(input.path));
    const Case command{.name = text_in(result, "command", where),
                       .figure = "time",
                       .unit = "s",
                       .more_is_better = false};
    if (side.find(command) != nullptr) {
      fail(input.path, fmt::format("has the command {} twice: name the two with --command-name",
                                   excerpt(command.name)));
    }
    const Json& times = member(result, "times", where);
    if (!times.is_array() || times.empty()) {
      fail(input.path, fmt::format("has no times of the command {}", excerpt(command.name)));
    }
    Case& found = side.at(command);
    for (const Json& each : times) {
      found.launches.push_back({positive_number(
          each, fmt::format("{} in {}", excerpt(command.name), excerpt(input.path)))});
    }
  }
}

double seconds_of(const std::string& unit, const std::string& where) {
  constexpr std::array<std::pair<std::string_view, double>, 4> units = {
      {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}};
  const auto* const found =
      std::ranges::find(units, unit, &std::pair<std::string_view, double>::first);
  if (found != units.end()) return found->second;
  throw UsageError(
      fmt::format("{} has the time unit {}: ns, us, ms and s are known", where, excerpt(unit)));
}

/// Whether the object says so in a member.
bool is_true(const Json& object, const char* name) {
  return object.contains(name) && object[name].is_boolean() && object[name].get<bool>();
}

void read_google_benchmark(const Input& input, CaseSide& side) {
  std::set<std::pair<std::string, Json>> repetitions;  // name and index
  for (const Json& each : list_in(input, "benchmarks")) {
    const std::string place = fmt::format("a benchmark in {}", excerpt(input.path));
    const std::string name =
        text_in(each, each.is_object() && each.contains("run_name") ? "run_name" : "name", place);
    if (each.value("run_type", Json("iteration")) == "aggregate") continue;
    const std::string where = fmt::format("{} in {}", excerpt(name), excerpt(input.path));
    if (is_true(each, "error_occurred") || is_true(each, "skipped")) {
      side.not_measured.push_back(where + " was not measured");
      continue;
    }
    const double time = positive_number(member(each, "real_time", where), where) *
                        seconds_of(text_in(each, "time_unit", where), where);
    if (each.contains("repetition_index") &&
        !repetitions.emplace(name, each["repetition_index"]).second) {
      fail(input.path,
           fmt::format("has the benchmark {} twice: give the two different names", excerpt(name)));
    }
    side.at({.name = name, .figure = "real_time", .unit = "s", .more_is_better = false})
        .launches.push_back({time});
  }
  if (side.cases.empty()) {
    fail(input.path,
         "has no time of a repetition: run it without --benchmark_report_aggregates_only");
  }
}

// ---------------------------------------------------------------- text

std::vector<std::string> cells_of(const std::string& line) {
  using Separator = boost::escaped_list_separator<char>;
  const boost::tokenizer<Separator> cells(line, Separator(std::string(), ",", "\""));
  std::vector<std::string> found;
  for (const std::string& cell : cells) found.emplace_back(trim(cell));
  return found;
}

/// The place of a column. Throws UsageError unless the header has it once.
std::size_t find_column(const Input& input, const std::vector<std::string>& header,
                        const std::string& name) {
  const auto found = std::ranges::find(header, name);
  if (found == header.end()) {
    fail(input.path, fmt::format("has no column {}: its columns are {}", excerpt(name),
                                 excerpt(join(header, ", "))));
  }
  if (std::find(found + 1, header.end(), name) != header.end()) {
    fail(input.path, fmt::format("has several columns {}: rename one", excerpt(name)));
  }
  return static_cast<std::size_t>(found - header.begin());
}

void read_csv(const Input& input, const Columns& columns, CaseSide& side) {
  const std::vector<std::string> header = cells_of(input.lines.front());
  if (columns.value.empty()) {
    fail(input.path, fmt::format("is a CSV table: name the column of its values with --value, and "
                                 "those of its cases with --key; its columns are {}",
                                 excerpt(join(header, ", "))));
  }
  const std::size_t value = find_column(input, header, columns.value);
  std::vector<std::size_t> keys;
  for (const std::string& key : columns.keys) keys.push_back(find_column(input, header, key));
  for (std::size_t i = 1; i < input.lines.size(); ++i) {
    if (trim(input.lines[i]).empty()) continue;
    const std::string where = fmt::format("line {} of {}", i + 1, excerpt(input.path));
    const std::vector<std::string> row = cells_of(input.lines[i]);
    if (row.size() != header.size()) {
      throw UsageError(
          fmt::format("{} has {}, but the header has {}: write as many values as columns", where,
                      counted(row.size(), "value"), header.size()));
    }
    std::string name;
    for (const std::size_t key : keys) {
      name += fmt::format("{}{} {}", name.empty() ? "" : ", ", header[key], row[key]);
    }
    side.at({.name = keys.empty() ? "all rows" : name,
             .figure = columns.value,
             .more_is_better = columns.better == "more"})
        .launches.push_back({positive_number(std::string_view(row[value]), where)});
  }
  if (side.cases.empty()) fail(input.path, "has a header, but no row: add the measurements");
}

void read_numbers(const Input& input, const Columns& columns, CaseSide& side) {
  Case& numbers = side.at(
      {.name = "all lines", .figure = "number", .more_is_better = columns.better == "more"});
  for (std::size_t i = 0; i < input.lines.size(); ++i) {
    const std::string_view line = trim(input.lines[i]);
    if (line.empty()) continue;
    numbers.launches.push_back(
        {positive_number(line, fmt::format("line {} of {}", i + 1, excerpt(input.path)))});
  }
}

// ---------------------------------------------------------------- kinds

bool is_number(std::string_view text) {
  try {
    parse_number(text);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

void parse_json(const std::string& text, Input& input) {
  try {
    input.json = Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    fail(input.path,
         fmt::format("begins like JSON, but is damaged at byte {}: write it again", error.byte));
  } catch (const nlohmann::json::exception&) {
    fail(input.path, "has a number that is too large for a double: write it again");
  }
  const auto has_list = [&](const char* name) {
    return input.json.is_object() && input.json.contains(name) && input.json[name].is_array();
  };
  if (has_list("results")) {
    input.kind = Kind::hyperfine;
  } else if (has_list("benchmarks")) {
    input.kind = Kind::google_benchmark;
  } else {
    fail(input.path,
         "is JSON, but neither of hyperfine, with a list 'results', nor of google-benchmark, with "
         "a list 'benchmarks': name such a file, or a CSV table");
  }
}

/// Reads the file and recognizes its kind. `has_columns`: the user has named columns of a table.
Input read_input(const std::string& path, bool has_columns) {
  Input input{.path = path};
  result_files({&path, 1});  // throws if there is no such path
  if (!holds_text(path)) return input;
  constexpr std::uint64_t max_bytes = 256 << 20;
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  std::string text = read_small_file(path, max_bytes).value_or("");
  if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  const std::string_view contents = trim(text);
  if (contents.empty()) fail(path, "is empty: name a file with measurements");
  if (contents.starts_with('{') || contents.starts_with('[')) {
    parse_json(text, input);
    return input;
  }
  text.erase(0, static_cast<std::size_t>(contents.data() - text.data()));
  for (const std::string_view line : split(text, '\n')) input.lines.emplace_back(line);
  const std::string& first = input.lines.front();
  if (has_columns || first.find(',') != std::string::npos) {
    input.kind = Kind::csv;
  } else if (is_number(first)) {
    input.kind = Kind::numbers;
  } else {
    fail(path, fmt::format("begins with {}: name a result of this program, JSON of hyperfine or "
                           "google-benchmark, a CSV table and its column --value, or a file with "
                           "one number a line",
                           excerpt(first)));
  }
  return input;
}

void check_columns(const Input& input, const Columns& columns) {
  const bool is_text = input.kind == Kind::csv || input.kind == Kind::numbers;
  if (!is_text && columns.are_given()) {
    fail(input.path, fmt::format("is {}: --key, --value and --better are for CSV tables and files "
                                 "of numbers",
                                 word_of(input.kind)));
  }
  if (input.kind == Kind::numbers && !columns.keys.empty()) {
    fail(input.path, "has one number a line: --key is for CSV tables, with --value");
  }
}

CaseSide read_cases(const Input& input, const Columns& columns, bool is_noise_given) {
  CaseSide side;
  side.path = input.path;
  if (input.kind == Kind::hyperfine) read_hyperfine(input, side);
  if (input.kind == Kind::google_benchmark) read_google_benchmark(input, side);
  if (input.kind == Kind::csv) read_csv(input, columns, side);
  if (input.kind == Kind::numbers) read_numbers(input, columns, side);
  for (Case& each : side.cases) {
    study::Estimate& first = each.launches.front();
    // A value has no noise of its own beside the known noise between launches.
    if (is_noise_given && each.launches.size() == 1) first.interval = {first.value, first.value};
  }
  return side;
}

/// The side of one case under another name.
CaseSide renamed(const CaseSide& side, const std::string& name) {
  CaseSide other;
  other.path = side.path;
  Case only = side.cases.front();
  only.name = name;
  other.at(only);
  return other;
}

}  // namespace

bool holds_text(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  std::ifstream file(path, std::ios::binary);
  std::array<char, 4096> start{};
  file.read(start.data(), start.size());
  if (file.bad() || (file.fail() && !file.eof())) return false;
  const std::string_view text(start.data(), static_cast<std::size_t>(file.gcount()));
  return text.find('\0') == std::string_view::npos;
}

CasesComparison compare_measurements(const std::string& before, const std::string& after,
                                     const Columns& columns, const Judgement& judgement) {
  const bool has_columns = !columns.value.empty();
  const Input old = read_input(before, has_columns), now = read_input(after, has_columns);
  if (old.kind != now.kind) {
    throw UsageError(fmt::format("OLD {} is {}, but NEW {} is {}: name files of one kind",
                                 excerpt(before), word_of(old.kind), excerpt(after),
                                 word_of(now.kind)));
  }
  if (fs::equivalent(before, after)) fail(after, "is on both sides: name two files");
  check_columns(old, columns);
  const CaseSide first = read_cases(old, columns, judgement.is_noise_given);
  const CaseSide second = read_cases(now, columns, judgement.is_noise_given);
  if (old.kind == Kind::hyperfine && first.cases.size() == 1 && second.cases.size() == 1) {
    const std::string &command = first.cases[0].name, &other = second.cases[0].name;
    const std::string name = command == other ? command : fmt::format("{} -> {}", command, other);
    return compare_cases(renamed(first, name), renamed(second, name), judgement);
  }
  return compare_cases(first, second, judgement);
}

}  // namespace shardstream::report
