#include "cli/workload_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "workloads/registry.hpp"

namespace shardstream::cli {
namespace {

namespace fs = std::filesystem;

/// Throws UsageError, which names the argument and not the option run.workload that it stands for.
void expect_workload(std::string_view command, const std::string& name) {
  const std::vector<std::string_view> names = workloads::names();
  if (std::ranges::find(names, name) != names.end()) return;
  throw UsageError(
      fmt::format("{}: {} is neither a workload nor a configuration file (NAME.ini){}: name {}",
                  command, excerpt(name), did_you_mean(nearest(name, names)), join_or(names)));
}

/// The first option for data of the workload; empty without a workload or such an option.
std::string_view data_key_of(std::string_view name) {
  const auto* const found = workloads::find(name);
  return found == nullptr || found->data.empty() ? std::string_view() : found->data[0];
}

/// The remedy for the second word of a command line, which no option takes: it may be data. Without
/// quotes, a shell replaces a pattern by all files that match, and divides a selection at its
/// blanks.
std::string remedy_for_extra(const CommandLine& line) {
  const std::string& word = line.words[1];
  std::error_code unreadable;  // ignored: then it is no file
  const bool is_data = names_data(word) || fs::exists(word, unreadable);
  const std::string_view key = data_key_of(line.words[0]);
  if (is_data && line.words.size() == 2 && !key.empty() && !line.values.contains(key)) {
    return fmt::format("pass data as --{} {}", key, shell_line({word}));
  }
  return is_data || word.ends_with(']')
             ? "put a pattern or a selection in quotes ('sst_*.nc', 'x.h5:/T[0:3, 5]')"
             : "check the spelling of the options";
}

}  // namespace

bool names_data(const std::string& word) {
  constexpr std::array<std::string_view, 6> extensions = {".h5", ".hdf5", ".he5",
                                                          ".nc", ".nc4",  ".mat"};
  return word.find(":/") != word.npos ||
         std::ranges::find(extensions, fs::path(word).extension().string()) != extensions.end();
}

Options resolve_workload(std::string_view command, const OptionTable& table, CommandLine line,
                         const char* const* environment, fs::path& ini) {
  if (line.words.size() == 2 && line.words[1].ends_with(".ini")) {
    throw UsageError(fmt::format(
        "{} takes a workload or a configuration file, not both: leave out {}, since {} names the "
        "workload (workload in the section [run])",
        command, excerpt(line.words[0]), excerpt(line.words[1])));
  }
  if (line.words.size() != 1) {
    throw UsageError(
        line.words.empty()
            ? fmt::format("{} needs a workload ({}) or a configuration file (NAME.ini): see "
                          "shardstream {} --help",
                          command, join_or(workloads::names()), command)
            : fmt::format("{} takes one workload or configuration file, but {} "
                          "follows {}: {}",
                          command, excerpt(line.words[1]), excerpt(line.words[0]),
                          remedy_for_extra(line)));
  }
  if (!line.words[0].ends_with(".ini")) {
    if (names_data(line.words[0])) {
      throw UsageError(fmt::format(
          "{0}: {1} is data, not a workload: name the workload first, as in shardstream "
          "{0} reduce --input.data {2}",
          command, excerpt(line.words[0]), shell_line({line.words[0]})));
    }
    std::error_code unreadable;  // ignored: the word is then checked as the name of a workload
    if (fs::is_regular_file(line.words[0], unreadable)) {
      throw UsageError(
          fmt::format("{} is not recognised as a configuration file: give it a name that "
                      "ends in .ini",
                      excerpt(line.words[0])));
    }
    expect_workload(command, line.words[0]);
    line.values["run.workload"] = line.words[0];
  } else {
    ini = line.words[0];
  }
  Options options =
      table.resolve(line, environment, ini.empty() ? std::nullopt : std::optional(ini));
  if (options.text("run.workload").empty()) {
    throw UsageError(fmt::format(
        "{} names no workload: add one to it (workload = {} in the section [run]), or name it on "
        "the command line (--run.workload {})",
        excerpt(ini.string()), join_or(workloads::names()), workloads::all()[0].name));
  }
  return options;
}

}  // namespace shardstream::cli
