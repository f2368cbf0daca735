// Run files grouped into scaling studies, with the fitted laws of each study. Everything is a
// function of the files only.
#pragma once

#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/agreement.hpp"
#include "report/configured_law.hpp"
#include "report/experiments.hpp"
#include "report/run_file.hpp"
#include "report/together.hpp"
#include "study/laws/amdahl.hpp"
#include "study/laws/extrapolation.hpp"
#include "study/laws/gustafson.hpp"
#include "study/laws/scalability.hpp"
#include "study/sizes.hpp"
#include "study/statistics/drift.hpp"
#include "study/statistics/outliers.hpp"
#include "study_folder/attempts.hpp"

namespace shardstream::report {

/// The time that nodes and GPUs were allocated; NaN if it is unknown. A launch counts from the
/// start of the launcher to its end, or at least from the start of the processes to the result.
struct Cost {
  double node_hours = std::nan(""), gpu_hours = std::nan("");
};

/// Facts about the runs of one size, besides their times. Numbers are medians over the launches, or
/// NaN if no run has them. Words are the most frequent ones, or empty if no run has them.
struct SizeFacts {
  std::string bound_by, page_cache;
  double bound_share = std::nan("");  ///< the rate divided by that bound
  double to_result = std::nan("");    ///< seconds; see RunFile::to_result()
  double launcher = std::nan("");     ///< time of the launcher before the processes ran, in seconds
  double host_memory = std::nan("");  ///< maximum of the ranks' peak memory, in bytes
  double nodes = 0, gpus = 0;
  Cost cost;               ///< of one launch
  double repetitions = 0;  ///< per launch; they may differ with measure.repeat auto
  std::size_t min_repetitions = 0, max_repetitions = 0;  ///< of any launch
  std::size_t throttled = 0;    ///< number of launches in which a GPU was throttled
  std::size_t unconverged = 0;  ///< number of launches that did not reach measure.precision
};

/// The attempts of a study that left no result, and its launches that have none.
struct UnfinishedLaunches {
  std::vector<study_folder::LaunchAttempt> failed;       ///< attempts, if the folder lists them
  std::vector<study_folder::LaunchAttempt> interrupted;  ///< attempts of launches in `missing`
  std::vector<std::string> missing;  ///< names of launches of study.ini without a result
};

/// The laws that are fitted to a study, what they expect, and the law that its runs configure.
struct StudyLaws {
  study::Result<study::Amdahl> amdahl;
  study::Result<study::Gustafson> gustafson;
  study::Result<study::Scalability> scalability;
  /// By the fitted law, on twice as many ranks as the largest size has.
  study::Result<study::Extrapolation> expected;
  std::optional<ConfiguredLaw> configured;  ///< if the options of the runs set their law
};

/// The launches of one workload at several numbers of ranks.
struct StudyReport {
  std::string name;  ///< study.name, or the workload for runs without labels
  std::string workload, unit, device;
  std::vector<RunFile> runs;       ///< in the order of their creation
  std::vector<RunFile> timelines;  ///< runs that are only used for their spans in figures
  UnfinishedLaunches unfinished;
  study::Study table;
  std::vector<SizeFacts> facts;  ///< of each size in `table`
  /// All launches count, with timelines. If the folder lists attempts, also with the calibration
  /// run and with failed attempts.
  Cost cost;
  StudyLaws laws;
  study::Result<study::Drift> drift;
  std::vector<study::Outlier> outliers;  ///< their launches are indices of `runs`
  std::vector<ExcludedFile> excluded;    ///< excluded files of this study
  /// Describes a contradiction between results; empty if those that must be equal are.
  std::string contradiction;
  std::vector<std::string> notes;  ///< sentences about inputs that changed while results agree

  bool is_strong() const { return table.mode == study::Mode::strong; }
  /// The test of the fitted law; null without a law.
  const study::Fit* fit() const;
  /// The result of this test; `untested` without a law.
  study::FitVerdict fit_verdict() const;
  /// Whether the test rejects the fitted law.
  bool is_law_rejected() const;
  /// The number of launches in which a GPU was throttled, or whose repetitions did not converge.
  std::size_t throttled() const;
  std::size_t unconverged() const;
  /// The number of launches whose complete result could be verified only in part or not at all.
  std::size_t partly_verified() const;
  /// The timeline run on `ranks` ranks; null if there is none.
  const RunFile* timeline_on(std::uint64_t ranks) const;
  /// The runs on `ranks` ranks.
  std::vector<const RunFile*> runs_on(int ranks) const;
};

struct Report {
  std::vector<StudyReport> studies;
  std::optional<Together> together;  ///< if the studies are to be compared side by side
  std::vector<BenchFile> benches;
  std::vector<ExcludedFile> unreadable;  ///< files that are not results of this schema
};

/// The median of a number over runs; NaN if no run has it.
double median_of(const std::vector<const RunFile*>& runs,
                 const std::function<double(const RunFile&)>& number);

/// The files in `paths`, and the result files (*.h5) of folders in `paths` in alphabetical order.
/// Throws UsageError if a path does not exist, or a folder has no such file.
std::vector<std::filesystem::path> result_files(std::span<const std::string> paths);

/// Reads and groups the files, and the attempts in their folders. Runs with labels belong to the
/// study that these name. Other runs of one workload with the same work form a strong study.
/// Calibration runs are ignored, and timeline runs are kept separately. If there are copies of a
/// file, the first one is used.
Report make_report(std::span<const std::filesystem::path> files);

}  // namespace shardstream::report
