#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "core/text.hpp"
#include "io/source/origin.hpp"

namespace shardstream::io {
namespace {

/// The warning without the name of the file and without numbers, which differ between files.
std::string kind_of(std::string warning, const std::string& file) {
  for (auto at = warning.find(file); at != warning.npos && !file.empty(); at = warning.find(file)) {
    warning.erase(at, file.size());
  }
  std::erase_if(warning, [](char c) { return c >= '0' && c <= '9'; });
  return warning;
}

void add_missing(std::vector<std::string>& to, const std::vector<std::string>& more) {
  for (const std::string& each : more) {
    if (std::ranges::find(to, each) == to.end()) to.push_back(each);
  }
}

}  // namespace

void set_option(Origin& origin, std::string_view option) {
  for (InputFile& each : origin.files) each.option = option;
  if (option == "input.data") return;
  for (auto* const attributes : {&origin.applied, &origin.not_applied}) {
    for (std::string& each : *attributes) each += fmt::format(" of {}", option);
  }
}

void add(Origin& to, const Origin& from) {
  std::set<InputFile> known(to.files.begin(), to.files.end());
  for (const InputFile& file : from.files) {
    if (known.insert(file).second) to.files.push_back(file);
  }
  add_missing(to.warnings, from.warnings);
  add_missing(to.notes, from.notes);
  add_missing(to.beyond, from.beyond);
  add_missing(to.applied, from.applied);
  add_missing(to.not_applied, from.not_applied);
  to.may_have_gaps = to.may_have_gaps || from.may_have_gaps;
}

Origin unite(std::span<const Origin> origins) {
  Origin all;
  std::set<std::tuple<std::uint64_t, std::uint64_t, std::string>> known;
  std::map<std::string, std::size_t> kinds;                     // index of the first warning
  std::vector<std::pair<std::string, std::uint64_t>> warnings;  // and how many more are like it
  for (const Origin& origin : origins) {
    for (const InputFile& file : origin.files) {
      if (known.emplace(file.device, file.inode, file.dataset).second) all.files.push_back(file);
    }
    const std::string file = origin.files.empty() ? "" : origin.files.front().path.filename();
    for (const std::string& warning : origin.warnings) {
      const auto [kind, is_new] = kinds.emplace(kind_of(warning, file), warnings.size());
      if (is_new) {
        warnings.emplace_back(warning, 0);
      } else {
        ++warnings[kind->second].second;
      }
    }
    add_missing(all.applied, origin.applied);
    add_missing(all.not_applied, origin.not_applied);
    add_missing(all.of_sources, origin.of_sources);
    all.may_have_gaps = all.may_have_gaps || origin.may_have_gaps;
  }
  for (auto& [warning, more] : warnings) {
    all.warnings.push_back(
        more == 0 ? std::move(warning)
                  : fmt::format("{} (and the same for {} other files)", warning, more));
  }
  if (!origins.empty()) all.layout = origins.front().layout;
  return all;
}

}  // namespace shardstream::io
