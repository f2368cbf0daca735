#include "report/studies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "core/error.hpp"

namespace shardstream::report {
namespace {

namespace fs = std::filesystem;

/// The values that runs of one study have in common. Runs without labels must also have the same
/// work.
using Key = std::tuple<std::string, std::string, std::string, double>;

Key key_of(const RunFile& run) {
  const bool is_labelled = run.mode == "strong" || run.mode == "weak";
  return {run.study, run.mode, run.workload, is_labelled ? 0 : run.work};
}

/// Why a run of a study is not like its first one; empty if it is.
std::string difference(const RunFile& run, const RunFile& first) {
  const auto differs = [](const char* what, const std::string& is, const std::string& was) {
    return is == was ? std::string() : fmt::format("{} is {} and not {}", what, is, was);
  };
  if (run.resumed) return "it resumed an interrupted run, so its time is not that of all the work";
  for (const std::string& text :
       {differs("the device", run.device, first.device),
        differs("the commit", run.commit, first.commit),
        differs("the unit of work", run.work_unit, first.work_unit),
        differs("the precision", run.option("product.precision"),
                first.option("product.precision")),
        differs("the page cache", run.text("page_cache"), first.text("page_cache"))}) {
    if (!text.empty()) return text;
  }
  return {};
}

/// C's checksum must be the same at every size of a strong study.
std::string find_contradiction(const StudyReport& study) {
  if (!study.is_strong()) return {};
  const RunFile& first = study.runs.front();
  for (const RunFile& run : study.runs) {
    const std::string is = run.text("c_checksum"), was = first.text("c_checksum");
    if (is == was) continue;
    return fmt::format("the checksum is {} in '{}' and {} in '{}'", was, first.path.string(), is,
                       run.path.string());
  }
  return {};
}

StudyReport make_study(std::vector<RunFile> runs) {
  std::ranges::stable_sort(runs, {}, &RunFile::created);
  StudyReport study;
  const RunFile first = runs.front();
  study.workload = first.workload;
  study.name = first.study.empty() ? first.workload : first.study;
  study.unit = first.work_unit;
  study.device = first.device;
  std::vector<study::Launch> launches;
  for (RunFile& run : runs) {
    if (const std::string why = difference(run, first); !why.empty()) {
      study.excluded.push_back({run.path, why});
      continue;
    }
    const study::Launch launch{static_cast<int>(run.ranks), run.seconds, run.work};
    if (const auto why = study::why_invalid(launch)) {
      study.excluded.push_back({run.path, *why});
      continue;
    }
    launches.push_back(launch);
    study.runs.push_back(std::move(run));
  }
  study.table =
      study::tabulate(first.mode == "weak" ? study::Mode::weak : study::Mode::strong, launches);
  study.amdahl = study::fit_amdahl(study.table);
  study.gustafson = study::fit_gustafson(study.table);
  study.scalability = study::fit_scalability(study.table);
  study.drift = study::find_drift(study.table);
  study.contradiction = find_contradiction(study);
  return study;
}

}  // namespace

std::vector<const RunFile*> StudyReport::runs_on(int ranks) const {
  std::vector<const RunFile*> found;
  for (const RunFile& run : runs) {
    if (run.ranks == static_cast<std::uint64_t>(ranks)) found.push_back(&run);
  }
  return found;
}

std::vector<fs::path> result_files(std::span<const std::string> paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) {
      if (!fs::exists(path)) throw UsageError(fmt::format("there is no file '{}'", path));
      files.emplace_back(path);
      continue;
    }
    const std::size_t before = files.size();
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.path().extension() == ".h5" && !entry.path().filename().string().starts_with('.')) {
        files.push_back(entry.path());
      }
    }
    if (files.size() == before) {
      throw UsageError(fmt::format("the folder '{}' has no results (*.h5)", path));
    }
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  return files;
}

Report make_report(std::span<const fs::path> files) {
  Report report;
  std::map<Key, std::vector<RunFile>> groups;
  for (const fs::path& file : files) {
    try {
      RunFile run = read_run_file(file);
      if (run.point != "calibration") groups[key_of(run)].push_back(std::move(run));
    } catch (const UsageError& error) {
      report.unreadable.push_back({file, error.what()});
    }
  }
  for (auto& [key, runs] : groups) {
    const fs::path first = runs.front().path;
    try {
      report.studies.push_back(make_study(std::move(runs)));
    } catch (const UsageError& error) {
      report.unreadable.push_back({first, error.what()});
    }
  }
  return report;
}

}  // namespace shardstream::report
