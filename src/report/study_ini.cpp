#include "report/study_ini.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>

#include "core/text.hpp"

namespace shardstream::report {

std::map<std::string, std::string> read_study_ini(const std::filesystem::path& folder) {
  std::ifstream file(folder / "study.ini");
  std::map<std::string, std::string> values;
  std::string section;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('[')) section = line.substr(1, line.find(']') - 1);
    const auto equals = line.find(" = ");
    if (line.starts_with('#') || equals == line.npos) continue;
    values[section + '.' + line.substr(0, equals)] = line.substr(equals + 3);
  }
  return values;
}

std::string launch_name(std::uint64_t ranks, std::uint64_t replicate) {
  return fmt::format("p{}-r{}", ranks, replicate);
}

std::vector<std::string> launch_names(const std::map<std::string, std::string>& study_ini) {
  const auto ranks = study_ini.find("scale.ranks");
  const auto replicates = study_ini.find("scale.replicates");
  std::vector<std::string> names;
  if (ranks == study_ini.end() || replicates == study_ini.end()) return names;
  const auto number = [](std::string_view word) {
    return std::strtoull(std::string(word).c_str(), nullptr, 10);
  };
  for (std::uint64_t replicate = 1; replicate <= number(replicates->second); ++replicate) {
    for (const std::string_view word : split(ranks->second, ',')) {
      names.push_back(launch_name(number(trim(word)), replicate));
    }
  }
  return names;
}

}  // namespace shardstream::report
