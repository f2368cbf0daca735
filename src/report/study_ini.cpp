#include "report/study_ini.hpp"

#include <fmt/format.h>

#include <sstream>

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/text.hpp"
#include "core/units.hpp"

namespace shardstream::report {
namespace {

/// `value` without quotes that enclose the whole of it.
std::string_view unquoted(std::string_view value) {
  const bool quoted = value.size() >= 2 && (value[0] == '"' || value[0] == '\'') &&
                      value.find(value[0], 1) == value.size() - 1;
  return quoted ? value.substr(1, value.size() - 2) : value;
}

/// Whether a reader of INI files would change the value if it were not in quotes.
bool needs_quotes(std::string_view value) {
  if (value != trim(value) || value != unquoted(value) || value.starts_with('"') ||
      value.starts_with('\'')) {
    return true;
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const bool is_mark = value[i] == '#' || value[i] == ';';
    if (is_mark && (i == 0 || value[i - 1] == ' ' || value[i - 1] == '\t')) return true;
  }
  return false;
}

/// The number of an option in study.ini, from 1 to `max`.
std::uint64_t number_of(std::string_view key, std::string_view text, std::uint64_t max) {
  std::uint64_t number = 0;
  try {
    number = parse_count(text);
  } catch (const UsageError&) {
    number = 0;
  }
  if (number >= 1 && number <= max) return number;
  throw UsageError(
      fmt::format("{} = {} in study.ini is not a number from 1 to {}: restore its value", key,
                  excerpt(text), max));
}

}  // namespace

std::string ini_value(std::string_view value) {
  const std::string stored = stored_value(value);
  if (!needs_quotes(stored)) return stored;
  for (const char quote : {'"', '\''}) {
    if (stored.find(quote) == stored.npos) return quote + stored + quote;
  }
  return stored;
}

std::string stored_value(std::string_view value) {
  std::string stored;
  for (const char letter : value) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool is_control = byte < 0x20 || byte == 0x7f;
    stored += is_control ? fmt::format("\\x{:02x}", byte) : std::string(1, letter);
  }
  return stored;
}

std::map<std::string, std::string> read_study_ini(const std::filesystem::path& folder) {
  std::istringstream file(
      read_small_file(folder / "study.ini", max_study_ini_bytes).value_or(std::string()));
  std::map<std::string, std::string> values;
  std::string section;
  for (std::string text; std::getline(file, text);) {
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    std::string_view line = text;
    if (line.starts_with(byte_order_mark)) line.remove_prefix(byte_order_mark.size());
    line = trim(line);
    if (line.starts_with('[')) section = trim(line.substr(1, line.find(']') - 1));
    const auto equals = line.find('=');
    if (line.starts_with('#') || line.starts_with(';') || line.starts_with('[') ||
        equals == line.npos) {
      continue;
    }
    values.try_emplace(fmt::format("{}.{}", section, trim(line.substr(0, equals))),
                       unquoted(trim(line.substr(equals + 1))));
  }
  return values;
}

std::string launch_name(std::uint64_t ranks, std::uint64_t replicate) {
  return fmt::format("p{}-r{}", ranks, replicate);
}

std::vector<std::string> launch_names(const std::map<std::string, std::string>& study_ini) {
  constexpr std::uint64_t max_replicates = 1000, max_ranks = 1 << 24, max_launches = 1 << 20;
  const auto ranks = study_ini.find("scale.ranks");
  const auto replicates = study_ini.find("scale.replicates");
  std::vector<std::string> names;
  if (ranks == study_ini.end() || replicates == study_ini.end()) return names;
  const std::uint64_t last = number_of("scale.replicates", replicates->second, max_replicates);
  std::vector<std::uint64_t> sizes;
  for (const std::string_view word : split(ranks->second, ',')) {
    sizes.push_back(number_of("scale.ranks", word, max_ranks));
  }
  if (sizes.size() * last > max_launches) {
    throw UsageError(fmt::format(
        "scale.ranks and scale.replicates in study.ini are {} launches, more than {}: restore "
        "their values",
        sizes.size() * last, max_launches));
  }
  for (std::uint64_t replicate = 1; replicate <= last; ++replicate) {
    for (const std::uint64_t size : sizes) names.push_back(launch_name(size, replicate));
  }
  return names;
}

}  // namespace shardstream::report
