#include "core/options/environment.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"
#include "core/units.hpp"

namespace shardstream::options {
namespace {

/// Null if no option has this variable.
const OptionRow* row_of_variable(const std::vector<OptionRow>& rows, std::string_view name) {
  const auto row = std::ranges::find_if(
      rows, [&](const OptionRow& each) { return environment_name(each.key) == name; });
  return row == rows.end() ? nullptr : &*row;
}

std::string warning_of_variable(const std::vector<OptionRow>& rows, std::string_view name) {
  std::vector<std::string> names;
  for (const OptionRow& row : rows) names.push_back(environment_name(row.key));
  // Names are compared without the prefix, which would make all of them similar.
  std::vector<std::string_view> ends;
  ends.reserve(names.size());
  for (const std::string_view each : names) ends.push_back(each.substr(environment_prefix.size()));
  const std::string_view meant = nearest(name.substr(environment_prefix.size()), ends);
  const std::string full = meant.empty() ? "" : fmt::format("{}{}", environment_prefix, meant);
  return fmt::format("the environment variable {} is ignored, since no option has that name{}",
                     excerpt(name), did_you_mean(full));
}

/// Variables that control the tests are not options of the program.
bool is_for_tests(std::string_view entry) {
  return entry.starts_with("SHARDSTREAM_TEST_") || entry.starts_with("SHARDSTREAM_REQUIRE_GPU=");
}

}  // namespace

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

}  // namespace shardstream::options
