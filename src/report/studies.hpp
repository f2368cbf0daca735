// Run files grouped into scaling studies, with what the laws say of each. Everything is a function
// of the files alone.
#pragma once

#include <cmath>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "report/attempts.hpp"
#include "report/experiments.hpp"
#include "report/run_file.hpp"
#include "study/amdahl.hpp"
#include "study/drift.hpp"
#include "study/gustafson.hpp"
#include "study/scalability.hpp"
#include "study/sizes.hpp"

namespace shardstream::report {

/// A file that does not count, and why.
struct ExcludedFile {
  std::filesystem::path path;
  std::string reason;
};

/// What the runs of one size say, beside their times. Numbers are medians over the launches, NaN
/// if no run has them; words are those of most launches, empty if no run has them.
struct SizeFacts {
  std::string bound_by, page_cache;
  double bound_share = std::nan("");  ///< the rate over that bound
  double to_result = std::nan("");    ///< seconds; see RunFile::to_result()
  double launcher = std::nan("");     ///< seconds that the launcher took before the processes ran
  double host_memory = std::nan("");  ///< bytes: the peak of the rank with the most
  double repetitions = 0;             ///< of a launch
  std::size_t throttled = 0;          ///< launches in which a GPU was throttled
  std::size_t unconverged = 0;  ///< launches whose repetitions did not reach measure.precision
};

/// The launches of one workload at several numbers of ranks.
struct StudyReport {
  std::string name;  ///< study.name; of runs without labels their workload
  std::string workload, unit, device;
  std::vector<RunFile> runs;         ///< in the order in which they were made
  std::vector<RunFile> timelines;    ///< runs that keep spans for figures and count nowhere else
  std::vector<Attempt> failed;       ///< launches that left no result, if the folder lists attempts
  std::vector<std::string> missing;  ///< names of launches of study.ini without a result
  study::Study table;
  std::vector<SizeFacts> facts;  ///< of each size in `table`
  study::Result<study::Amdahl> amdahl;
  study::Result<study::Gustafson> gustafson;
  study::Result<study::Scalability> scalability;
  study::Result<study::Drift> drift;
  std::vector<ExcludedFile> excluded;  ///< files of this study that do not count
  /// Why the results contradict each other; empty if they agree, or have no checksum.
  std::string contradiction;

  bool is_strong() const { return table.mode == study::Mode::strong; }
  /// Launches in which a GPU was throttled, and launches whose repetitions did not converge.
  std::size_t throttled() const;
  std::size_t unconverged() const;
  /// The timeline run on so many ranks; null if there is none.
  const RunFile* timeline_on(std::uint64_t ranks) const;
  /// The runs on so many ranks.
  std::vector<const RunFile*> runs_on(int ranks) const;
};

struct Report {
  std::vector<StudyReport> studies;
  std::vector<BenchFile> benches;
  std::vector<ExcludedFile> unreadable;  ///< no results of this schema
};

/// The median of a number over runs; NaN if no run has it.
double median_of(const std::vector<const RunFile*>& runs,
                 const std::function<double(const RunFile&)>& number);

/// All result files (*.h5) that `paths` name, those of a folder in alphabetical order. Throws
/// UsageError if a path is not there, or a folder has no such file.
std::vector<std::filesystem::path> result_files(std::span<const std::string> paths);

/// Reads and groups them, with the attempts that their folders list. Runs with the labels of a
/// study belong to it; other runs of one workload with the same work are a strong study.
/// Calibration runs are left out, and timeline runs are kept apart. Of copies of a file the first
/// one counts.
Report make_report(std::span<const std::filesystem::path> files);

}  // namespace shardstream::report
