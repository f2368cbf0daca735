#include "report/studies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "study_folder/names.hpp"
#include "study_folder/study_ini.hpp"

namespace shardstream::report {
namespace {

namespace fs = std::filesystem;

/// The values that runs of one study have in common. Runs without labels must also have the same
/// work.
using Key = std::tuple<std::string, std::string, std::string, double, std::string>;

/// The input files of a run and the options that can change its result, a line for each.
std::string work_of(const RunFile& run) {
  std::string work;
  for (const io::InputFile& file : run.inputs) {
    work += fmt::format("{}={}:{}\n", file.option, file.path.string(), file.dataset);
  }
  for (const auto& [key, value] : options_of_result(run))
    work += fmt::format("{}={}\n", key, value);
  return work;
}

Key key_of(const RunFile& run) {
  const bool is_labelled = run.study.mode == "strong" || run.study.mode == "weak";
  return {run.study.name, run.study.mode, run.workload, is_labelled ? 0 : run.work,
          is_labelled ? "" : work_of(run)};
}

/// The options that can change the result, a line for each. In a weak study they depend on the
/// size, and are not compared.
std::string options_text(const RunFile& run) {
  if (run.study.mode != "strong") return {};
  return join(options_of_result(run), "\n",
              [](const auto& option) { return option.first + "=" + option.second; });
}

/// The first lines that differ in two different texts; empty if one text has no such line.
std::pair<std::string_view, std::string_view> lines_that_differ(std::string_view a,
                                                                std::string_view b) {
  const auto lines = split(a, '\n'), others = split(b, '\n');
  const auto [one, other] = std::ranges::mismatch(lines, others);
  return {one == lines.end() ? "" : *one, other == others.end() ? "" : *other};
}

/// The traits that the launches of a study must share, with their descriptions.
std::vector<std::pair<std::string_view, std::string>> traits_of(const RunFile& run) {
  return {{"the device", run.device},
          {"the commit", run.provenance.commit},
          {"the checksum of the program", run.provenance.program},
          {"the unit of work", run.work_unit},
          {"the precision", run.options.text("product.precision")},
          {"the page cache", run.text("page_cache")},
          {"pipeline.mode", run.options.text("pipeline.mode")},
          {"an option", options_text(run)}};
}

/// The most frequent value of each trait; on a tie, the value of the earliest run.
std::vector<std::string> usual_traits(std::span<const RunFile> runs) {
  std::vector<std::string> usual;
  for (std::size_t trait = 0; trait < traits_of(runs.front()).size(); ++trait) {
    std::map<std::string, std::size_t> count;
    for (const RunFile& run : runs) ++count[traits_of(run)[trait].second];
    const auto most = std::ranges::max_element(
        runs, {}, [&](const RunFile& run) { return count[traits_of(run)[trait].second]; });
    usual.push_back(traits_of(*most)[trait].second);
  }
  return usual;
}

/// The reason why a run cannot be compared with the others of its study, or "".
std::string difference(const RunFile& run, const std::vector<std::string>& usual) {
  if (run.provenance.resumed)
    return "it resumed an interrupted run, so its time is not that of the whole work";
  const auto traits = traits_of(run);
  for (std::size_t i = 0; i < traits.size(); ++i) {
    if (traits[i].second == usual[i]) continue;
    const auto [here, usually] = lines_that_differ(traits[i].second, usual[i]);
    return fmt::format("{} is {}, but {} in most launches", traits[i].first, excerpt(here),
                       excerpt(usually));
  }
  return {};
}

/// Adds the launcher's times, from the attempt that made the run. Clocks of hosts may differ, and a
/// clock may be set back, so negative times are treated as unknown.
void add_launcher_time(RunFile& run, std::span<const study_folder::LaunchAttempt> attempts) {
  constexpr double resolution = 0.05;  // of the time at which a process started
  const auto store = std::ranges::find(run.startup, "store", &result::Step::step);
  const std::string name = run.path.filename().string();
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    const study_folder::LaunchAttempt& attempt = attempts[i];
    if (attempt.result != name || !attempt.problem.empty()) continue;
    run.launcher = {.number = i};
    if (store == run.startup.end()) continue;
    const double start = store->utc - store->last - attempt.utc_start;
    const double end = attempt.utc_end - store->utc;
    if (start < -resolution || end < -resolution) continue;
    run.launcher.start = std::max(0.0, start);
    run.launcher.end = std::max(0.0, end);
  }
}

/// The most frequent word of a metric; empty if no run has it.
std::string common_word(const std::vector<const RunFile*>& runs, const std::string& metric) {
  std::map<std::string, std::size_t> count;
  for (const RunFile* run : runs) ++count[run->text(metric)];
  const auto most =
      std::ranges::max_element(count, {}, [](const auto& each) { return each.second; });
  return most == count.end() ? "" : most->first;
}

Cost cost_of(double seconds, double nodes, double gpus) {
  return {seconds * nodes / 3600, seconds * gpus / 3600};
}

Cost cost_of(const RunFile& run) {
  return cost_of(run.to_result(), static_cast<double>(run.size.hosts),
                 static_cast<double>(run.size.gpus));
}

/// The cost of all launches. Attempts count as long as the launcher ran, on the nodes and GPUs of
/// their number of ranks.
Cost total_cost(const StudyReport& study, std::span<const study_folder::LaunchAttempt> attempts) {
  Cost total{0, 0};
  const auto add = [&](const Cost& cost) {
    total.node_hours += cost.node_hours;
    total.gpu_hours += cost.gpu_hours;
  };
  for (const auto& attempt : attempts) {
    const auto facts =
        std::ranges::find(study.table.sizes, static_cast<int>(attempt.ranks), &study::Size::ranks);
    if (facts == study.table.sizes.end()) return {};
    const auto& of = study.facts[static_cast<std::size_t>(facts - study.table.sizes.begin())];
    add(cost_of(attempt.utc_end - attempt.utc_start, of.nodes, of.gpus));
  }
  if (!attempts.empty()) return total;
  for (const auto* const runs : {&study.runs, &study.timelines}) {
    for (const RunFile& run : *runs) add(cost_of(run));
  }
  return total;
}

std::vector<SizeFacts> facts_of(const StudyReport& study) {
  std::vector<SizeFacts> facts;
  for (const study::Size& size : study.table.sizes) {
    const auto runs = study.runs_on(size.ranks);
    const auto number = [&](const char* metric) {
      return median_of(runs, [&](const RunFile& run) { return run.number(metric); });
    };
    facts.push_back(
        {.bound_by = common_word(runs, "bound_by"),
         .page_cache = common_word(runs, "page_cache"),
         .bound_share = number("bound_share"),
         .to_result = median_of(runs, &RunFile::to_result),
         .launcher = median_of(runs, [](const RunFile& run) { return run.launcher.start; }),
         .host_memory = number("host_memory_peak"),
         .nodes = median_of(runs,
                            [](const RunFile& run) { return static_cast<double>(run.size.hosts); }),
         .gpus =
             median_of(runs, [](const RunFile& run) { return static_cast<double>(run.size.gpus); }),
         .cost = {median_of(runs, [](const RunFile& run) { return cost_of(run).node_hours; }),
                  median_of(runs, [](const RunFile& run) { return cost_of(run).gpu_hours; })},
         .repetitions = median_of(runs, [](const RunFile& run) {
           return static_cast<double>(run.timing.repetitions.size());
         })});
    const auto count = [](const RunFile* run) { return run->timing.repetitions.size(); };
    const auto [min, max] = std::ranges::minmax(runs, {}, count);
    facts.back().min_repetitions = count(min);
    facts.back().max_repetitions = count(max);
    for (const RunFile* run : runs) {
      facts.back().throttled += run->timing.throttled > 0 ? 1 : 0;
      facts.back().unconverged += run->timing.sampling == "unconverged" ? 1 : 0;
    }
  }
  return facts;
}

/// Launches of study.ini without a file in the folder.
std::vector<std::string> missing_of(const StudyReport& study, const fs::path& folder) {
  const auto study_ini = study_folder::read_options(folder);
  const auto name = study_ini.find("study.name");
  if (name == study_ini.end() || name->second != study.name) return {};
  std::vector<std::string> missing = study_folder::launch_names(study_ini);
  std::erase_if(missing, [&](const std::string& launch) {
    std::error_code unreadable;
    return fs::exists(folder / study_folder::result_name(launch), unreadable);
  });
  return missing;
}

/// The sentence about a path that does not exist.
std::string no_such_path(const fs::path& path) {
  return fmt::format(
      "there is no file or folder {}{}: name result files (*.h5), or folders with them, such as "
      "that of scale -o",
      excerpt(path.string()), similar_path(path));
}

bool is_timeline(const RunFile& run) {
  return run.study.point == study_folder::timeline_label;
}

/// The most frequent traits of the launches, without timeline runs.
std::vector<std::string> usual_traits_of_launches(const std::vector<RunFile>& runs) {
  std::vector<RunFile> launches;
  std::ranges::remove_copy_if(runs, std::back_inserter(launches), is_timeline);
  if (launches.empty()) {
    throw UsageError(
        fmt::format("'{}' is the timeline run of a study, whose time is not evaluated: name its "
                    "folder",
                    runs.front().path.string()));
  }
  return usual_traits(launches);
}

study::MeasuredLaunch launch_of(const RunFile& run) {
  return {static_cast<int>(run.size.ranks), run.timing.median, run.work};
}

/// Removes the runs that cannot be compared with the others, copies, and runs with impossible
/// values.
void exclude(std::vector<RunFile>& runs, const std::vector<std::string>& usual,
             std::vector<ExcludedFile>& excluded) {
  std::map<std::string, fs::path> seen;  // by uuid
  const auto why_not = [&](const RunFile& run) -> std::string {
    if (std::string why = difference(run, usual); !why.empty()) return why;
    const auto [copy, is_new] = seen.try_emplace(run.provenance.uuid, run.path);
    if (!is_new && !run.provenance.uuid.empty()) {
      return fmt::format("it is a copy of '{}'", copy->second.string());
    }
    return study::why_invalid(launch_of(run)).value_or(std::string());
  };
  std::erase_if(runs, [&](const RunFile& run) {
    const std::string why = why_not(run);
    if (!why.empty()) excluded.push_back({run.path, why});
    return !why.empty();
  });
}

study::Result<study::Extrapolation> expected_of(const StudyReport& study) {
  const int next = 2 * study.table.sizes.back().ranks;
  if (study.laws.amdahl) return study::extrapolate(*study.laws.amdahl, next);
  if (study.laws.gustafson) return study::extrapolate(*study.laws.gustafson, next);
  return study::Result<study::Extrapolation>::none(
      study.is_strong() ? study.laws.amdahl.why_not : study.laws.gustafson.why_not);
}

StudyReport make_study(std::vector<RunFile> runs) {
  std::ranges::stable_sort(runs, {}, [](const RunFile& run) {
    return std::tuple(run.launcher.number, run.provenance.created);
  });
  StudyReport study;
  const RunFile first = runs.front();
  study.workload = first.workload;
  study.name = first.study.name.empty() ? first.workload : first.study.name;
  study.unit = first.work_unit;
  study.device = first.device;
  const std::vector<std::string> usual = usual_traits_of_launches(runs);
  std::vector<study::MeasuredLaunch> launches;
  exclude(runs, usual, study.excluded);
  const bool is_strong = first.study.mode != "weak";
  Agreement agreement = remove_contradictions(runs, is_strong);
  std::ranges::move(agreement.excluded, std::back_inserter(study.excluded));
  study.contradiction = std::move(agreement.contradiction);
  study.notes = std::move(agreement.notes);
  for (RunFile& run : runs) {
    if (is_timeline(run)) {
      study.timelines.push_back(std::move(run));
      continue;
    }
    launches.push_back(launch_of(run));
    study.runs.push_back(std::move(run));
  }
  if (launches.empty() && !study.excluded.empty()) {
    const ExcludedFile& file = study.excluded.front();
    throw UsageError(fmt::format("'{}' is excluded: {}", file.path.string(), file.reason));
  }
  study.table = study::tabulate(is_strong ? study::Mode::strong : study::Mode::weak, launches);
  study.facts = facts_of(study);
  study.laws.amdahl = study::fit_amdahl(study.table);
  study.laws.gustafson = study::fit_gustafson(study.table);
  study.laws.scalability = study::fit_scalability(study.table);
  study.laws.expected = expected_of(study);
  study.laws.configured = configured_law(study.runs, study.table);
  study.drift = study::find_drift(study.table);
  study.outliers = study::find_outliers(study.table);
  return study;
}

/// The reason why the folder of a study has no results, as the end of a sentence; empty if its
/// attempts do not tell.
std::string failure_in(const fs::path& folder) {
  try {
    const auto attempts = study_folder::read_attempts(folder);
    if (attempts.empty() || attempts.back().problem.empty()) return {};
    const study_folder::LaunchAttempt& last = attempts.back();
    return fmt::format("; the last launch of its study, {}, has failed: {} (see '{}')", last.name(),
                       last.problem, (folder / "logs" / last.log).string());
  } catch (const UsageError& error) {
    return fmt::format("; {}", error.what());
  }
}

/// The attempts in the folders of runs. Each folder is read once.
class FolderAttempts {
 public:
  using Attempts = std::span<const study_folder::LaunchAttempt>;

  /// A table that cannot be read is added to `unreadable`.
  Attempts read(const fs::path& folder, std::vector<ExcludedFile>& unreadable) {
    const auto [found, is_new] = by_folder_.try_emplace(folder);
    if (!is_new) return found->second;
    try {
      found->second = study_folder::read_attempts(folder);
    } catch (const UsageError& error) {
      unreadable.push_back({folder / study_folder::attempts_name, error.what()});
    }
    return found->second;
  }
  /// Those that were read; none for another folder.
  Attempts of(const fs::path& folder) const {
    const auto found = by_folder_.find(folder);
    return found == by_folder_.end() ? Attempts() : found->second;
  }

 private:
  std::map<fs::path, std::vector<study_folder::LaunchAttempt>> by_folder_;
};

/// The runs of the files by study, in the order of the files. Other files go to `report`.
std::vector<std::vector<RunFile>> grouped_runs(std::span<const fs::path> files,
                                               FolderAttempts& attempts, Report& report) {
  std::map<Key, std::size_t> places;
  std::vector<std::vector<RunFile>> groups;
  for (const fs::path& file : files) {
    try {
      const io::ResultReader reader(file);
      if (is_bench_file(reader)) {
        report.benches.push_back(read_bench_file(reader, file));
        continue;
      }
      RunFile run = read_run_file(reader, file);
      if (run.study.point == study_folder::calibration_label) continue;
      if (!run.study.name.empty()) {
        add_launcher_time(run, attempts.read(file.parent_path(), report.unreadable));
      }
      const auto [group, is_new] = places.try_emplace(key_of(run), groups.size());
      if (is_new) groups.emplace_back();
      groups[group->second].push_back(std::move(run));
    } catch (const UsageError& error) {
      report.unreadable.push_back({file, error.what()});
    }
  }
  return groups;
}

/// Adds the study of these runs, or the reason why there is none.
void add_study(std::vector<RunFile>&& runs, const FolderAttempts& attempts, Report& report) {
  const fs::path first = runs.front().path;
  try {
    report.studies.push_back(make_study(std::move(runs)));
  } catch (const UsageError& error) {
    report.unreadable.push_back({first, error.what()});
    return;
  }
  StudyReport& study = report.studies.back();
  UnfinishedLaunches& unfinished = study.unfinished;
  try {
    unfinished.missing = missing_of(study, first.parent_path());
  } catch (const UsageError& error) {
    report.unreadable.push_back({first.parent_path() / study_folder::ini_name, error.what()});
  }
  const FolderAttempts::Attempts tried = attempts.of(first.parent_path());
  study.cost = total_cost(study, tried);
  for (const study_folder::LaunchAttempt& each : tried) {
    if (each.problem.empty()) continue;
    if (!each.interrupted) {
      unfinished.failed.push_back(each);
    } else if (std::ranges::find(unfinished.missing, each.name()) != unfinished.missing.end()) {
      unfinished.interrupted.push_back(each);
    }
  }
}

}  // namespace

std::vector<fs::path> result_files(std::span<const std::string> paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    std::error_code error;
    const fs::file_type type = fs::status(path, error).type();
    if (type == fs::file_type::not_found) throw UsageError(no_such_path(path));
    if (error) {
      throw UsageError(fmt::format("{} cannot be reached ({}): name another file or folder",
                                   excerpt(path), error.message()));
    }
    if (type != fs::file_type::directory) {
      files.emplace_back(path);
      continue;
    }
    const std::size_t before = files.size();
    for (const std::string& name : names_in(path)) {
      if (fs::path(name).extension() == ".h5" && !name.starts_with('.')) {
        files.push_back(fs::path(path) / name);
      }
    }
    if (files.size() == before) {
      throw UsageError(fmt::format(
          "the folder '{}' has no results (*.h5); folders in it are not searched: name them{}",
          path, failure_in(path)));
    }
  }
  return files;
}

Report make_report(std::span<const fs::path> files) {
  Report report;
  FolderAttempts attempts;
  for (std::vector<RunFile>& runs : grouped_runs(files, attempts, report)) {
    add_study(std::move(runs), attempts, report);
  }
  std::vector<const RunFile*> runs;
  for (const StudyReport& study : report.studies) {
    for (const RunFile& run : study.runs) runs.push_back(&run);
  }
  for (BenchFile& bench : report.benches) {
    bench.roofline = roofline_of(bench.experiments, bench.device, runs);
  }
  return report;
}

}  // namespace shardstream::report
