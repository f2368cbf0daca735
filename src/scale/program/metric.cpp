#include "scale/program/metric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <regex>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::scale::program {
namespace {

constexpr std::string_view option = "scale.metric";

struct Unit {
  std::string_view name;
  double seconds;
};
constexpr std::array<Unit, 6> units = {
    {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}}};

std::regex compiled(std::string_view name, const std::string& regex) {
  try {
    return std::regex(regex);
  } catch (const std::regex_error& error) {
    throw UsageError(fmt::format("{}: {} is not a regular expression ({}): fix it", name,
                                 excerpt(regex), error.what()));
  }
}

/// Calls `see` with the number and the text of each line until it returns false.
void each_line(const std::filesystem::path& output,
               const std::function<bool(std::uint64_t, const std::string&)>& see) {
  constexpr std::size_t max_bytes = 8192;  // std::regex needs stack for every character
  std::ifstream file(output);
  std::uint64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.size() > max_bytes) line.resize(max_bytes);
    if (!see(++number, line)) return;
  }
}

/// Sets the numbers of `value` from its text, or its problem.
void convert(const Metric& metric, const std::string& line, MetricValue& value) {
  const std::string_view text = trim(value.text);
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value.number);
  const auto unit = std::ranges::find(units, metric.unit, &Unit::name);
  value.seconds = value.number * unit->seconds;
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    value.problem = fmt::format("{} ({}) is {}, which is not a number, in the line {}", metric.name,
                                option, excerpt(value.text), excerpt(line));
  } else if (!std::isfinite(value.seconds) || value.seconds <= 0) {
    value.problem = fmt::format("{} ({}) is {}, which is not a time above zero, in the line {}",
                                metric.name, option, excerpt(value.text), excerpt(line));
  }
}

}  // namespace

Metric parse_metric(std::string_view text) {
  constexpr std::string_view kind = "re:";
  constexpr std::string_view letters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  const auto equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const bool has_name =
      equals != text.npos && !name.empty() && name.find_first_not_of(letters) == name.npos;
  if (!has_name || !text.substr(equals + 1).starts_with(kind)) {
    throw UsageError(fmt::format(
        "{}: {} is neither wall nor NAME=re:REGEX: write for example 'time=re:time: ([0-9.]+)'",
        option, excerpt(text)));
  }
  Metric metric{std::string(name), std::string(text.substr(equals + 1 + kind.size()))};
  const auto colon = metric.regex.rfind(':');
  const std::string last = colon == std::string::npos ? "" : metric.regex.substr(colon + 1);
  if (std::ranges::find(units, last, &Unit::name) != units.end()) {
    metric.unit = last;
    metric.regex.resize(colon);
  }
  if (const auto groups = compiled(option, metric.regex).mark_count(); groups != 1) {
    throw UsageError(fmt::format(
        "{}: {} has {}: put the number, and nothing else, in one group (...), and write (?:...) "
        "for other groups",
        option, excerpt(metric.regex), counted(groups, "group")));
  }
  return metric;
}

void check_regex(std::string_view name, const std::string& regex) {
  compiled(name, regex);
}

MetricValue find_metric(const Metric& metric, const std::filesystem::path& output) {
  const std::regex regex = compiled(option, metric.regex);
  MetricValue value;
  std::uint64_t found_at = 0, lines = 0;
  std::string last;
  each_line(output, [&](std::uint64_t number, const std::string& line) {
    lines = number;
    if (!trim(line).empty()) last = line;
    for (std::sregex_iterator match(line.begin(), line.end(), regex), end; match != end; ++match) {
      if (found_at == 0) {
        found_at = number;
        value.text = (*match)[1];
        convert(metric, line, value);
        continue;
      }
      value.problem =
          fmt::format("{} matches twice in '{}', in lines {} and {}, {}: make it match once",
                      option, output.string(), found_at, number, excerpt(line));
      return false;
    }
    return true;
  });
  if (found_at > 0) return value;
  value.problem = lines == 0
                      ? fmt::format("{} has no match, since '{}' is empty", option, output.string())
                      : fmt::format("{} matches none of {} of '{}', the last of which is {}",
                                    option, counted(lines, "line"), output.string(), excerpt(last));
  return value;
}

bool has_line(const std::string& regex, const std::filesystem::path& output) {
  const std::regex wanted(regex);
  bool found = false;
  each_line(output, [&](std::uint64_t, const std::string& line) {
    found = std::regex_search(line, wanted);
    return !found;
  });
  return found;
}

}  // namespace shardstream::scale::program
