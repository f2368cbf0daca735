#include "io/description/origin.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::io {
namespace {

namespace fs = std::filesystem;

std::int64_t modified_ns(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

constexpr std::size_t max_listed = 8;  // names in a message

bool is_same_file(const InputFile& file, const struct stat& status) {
  return file.device == status.st_dev && file.inode == status.st_ino;
}

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

void apply_attributes(Origin& origin, std::vector<std::string> applied,
                      std::span<const std::string> explained, const std::string& name) {
  const auto without = [&origin](std::vector<std::string> names,
                                 std::span<const std::string> others) {
    std::erase_if(names, [&](const std::string& each) {
      return std::ranges::find(others, each) != others.end() &&
             std::ranges::find(origin.of_sources, each) == origin.of_sources.end();
    });
    return names;
  };
  origin.not_applied = without(std::move(origin.not_applied), applied);
  origin.applied = std::move(applied);
  const std::vector<std::string> unexplained = without(origin.not_applied, explained);
  if (unexplained.empty()) return;
  origin.warnings.push_back(fmt::format(
      "attributes that may change the values of {} are not applied ({} of this data set or its "
      "sources): if they mark missing or packed values, write decoded ones to another file, for "
      "example with xarray",
      name, join_first(unexplained, max_listed, ", ")));
}

std::string not_applied_text(const Origin& origin) {
  return join_first(origin.not_applied, max_listed, ", ");
}

InputFile state_of(const fs::path& path, const std::string& dataset) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw UsageError(fmt::format("'{}' cannot be reached ({}): check the path", path.string(),
                                 errno_text(errno)));
  }
  return {.path = fs::absolute(path).lexically_normal(),
          .dataset = dataset,
          .device = status.st_dev,
          .inode = status.st_ino,
          .size = static_cast<std::uint64_t>(status.st_size),
          .modified = modified_ns(status)};
}

std::string change_of(const InputFile& file) {
  struct stat status {};
  std::string change;
  if (::stat(file.path.c_str(), &status) != 0) {
    change = errno_text(errno);
  } else if (!is_same_file(file, status)) {
    change = "another file has its name now";
  } else if (file.size != static_cast<std::uint64_t>(status.st_size)) {
    change = fmt::format("its size was {} bytes and is {}", file.size, status.st_size);
  } else if (file.modified != modified_ns(status)) {
    change = "it was written to";
  } else {
    return {};
  }
  return fmt::format("the input '{}' has changed during the run ({})", file.path.string(), change);
}

const InputFile* input_at(const fs::path& path, std::span<const InputFile> inputs) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return nullptr;
  const auto found = std::ranges::find_if(
      inputs, [&](const InputFile& input) { return is_same_file(input, status); });
  return found == inputs.end() ? nullptr : &*found;
}

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
