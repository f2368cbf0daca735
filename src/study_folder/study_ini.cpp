#include "study_folder/study_ini.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/options/ini_file.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "study_folder/names.hpp"

namespace shardstream::study_folder {
namespace {

/// The first line of study.ini, which proves that `scale` has written the file.
constexpr std::string_view ini_mark = "# A scaling study; shardstream scale has written this file.";

std::optional<std::string> read_ini(const std::filesystem::path& folder) {
  constexpr std::uint64_t max_bytes = std::uint64_t{1} << 20;
  return read_small_file(folder / ini_name, max_bytes);
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

StoredOptions read_options(const std::filesystem::path& folder) {
  StoredOptions stored;
  options::for_each_ini_line(
      read_ini(folder).value_or(std::string()), (folder / ini_name).string(),
      [&](const options::IniLine& line) { stored.emplace(line.key, line.value); });
  return stored;
}

bool is_own_ini(const std::filesystem::path& folder) {
  constexpr std::size_t byte_order_mark = 3;  // bytes that an editor may have added before the mark
  return read_ini(folder).value_or(std::string()).find(ini_mark) <= byte_order_mark;
}

std::string ini_text(const OptionList& chosen, const std::string& name) {
  std::string text = fmt::format("{}\n[study]\nname = {}\n", ini_mark, options::ini_value(name));
  std::string section;
  for (const auto& [key, value] : chosen) {
    const std::string of_key = key.substr(0, key.find('.'));
    if (of_key != section) text += fmt::format("\n[{}]\n", of_key);
    section = of_key;
    text += fmt::format("{} = {}\n", key.substr(section.size() + 1), options::ini_value(value));
  }
  return text;
}

StoredOptions stored(const OptionList& chosen) {
  StoredOptions by_key;
  for (const auto& [key, value] : chosen) by_key[key] = options::stored_ini_value(value);
  return by_key;
}

std::vector<std::string> launch_names(const StoredOptions& options) {
  constexpr std::uint64_t max_ranks = 1 << 24, max_launches = 1 << 20;
  const auto ranks = options.find("scale.ranks");
  const auto replicates = options.find("scale.replicates");
  std::vector<std::string> names;
  if (ranks == options.end() || replicates == options.end()) return names;
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

}  // namespace shardstream::study_folder
