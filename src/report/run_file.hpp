// The parts of one result file of `run` that reports need.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/description/origin.hpp"
#include "io/hdf5/result_file.hpp"
#include "result/tables.hpp"

namespace shardstream::report {

/// The time of a phase of a track on the slowest rank inside the timed repetitions, in seconds.
/// Host and device times are added.
struct PhaseTime {
  std::string track, phase, kind;
  double seconds = 0;
};

/// The time that the launcher of a run needed, from the study's table of attempts, in seconds. NaN:
/// unknown.
struct LauncherTime {
  double start = std::nan("");    ///< until the run's processes started
  double end = std::nan("");      ///< after the run's file was published
  std::size_t number = SIZE_MAX;  ///< the launch's place among the attempts
};

/// The ceiling of the data transfer: the host link, or else the first memory or source on the path
/// of the data. Null if there is none. Valid as long as `ceilings` is.
const result::Ceiling* way_of(const std::vector<result::Ceiling>& ceilings);

/// The name of a track without its number: "reader" for "reader 0" and "reader 1".
std::string kind_of_track(const std::string& track);

/// The columns of the tables in /results whose values do not depend on the number of ranks.
inline constexpr std::array<std::string_view, 3> repeatable_columns = {"exact", "position",
                                                                       "checksum"};

/// The labels of a run of a study, as `scale` sets them. Other runs have the mode "none" only.
struct StudyLabels {
  std::string name;
  std::string mode;   ///< "strong", "weak" or "none"
  std::string point;  ///< "p4", "timeline" or "calibration"
  std::uint64_t replicate = 0;
};

/// The numbers of processes, hosts and GPUs of a run.
struct RunSize {
  std::uint64_t ranks = 1, hosts = 1;
  std::uint64_t max_ranks_on_host = 1;
  std::uint64_t gpus = 0;
};

/// The timed repetitions of a run.
struct RunTiming {
  std::vector<double> repetitions;  ///< seconds
  double median = 0;                ///< of the repetitions, in seconds
  std::int64_t throttled = 0;       ///< repetitions in which a GPU was throttled
  std::string sampling;             ///< fixed, converged or unconverged
};

/// The options of a run by key, as texts.
struct RunOptions {
  std::map<std::string, std::string> all;
  std::map<std::string, std::string> origins;   ///< "default", "command line", ...
  std::map<std::string, std::string> resolved;  ///< values that the program chose

  /// The value of an option; empty if the file has none.
  std::string text(const std::string& key) const;
  /// The value of an option that the program chose or rounded; otherwise the given one.
  std::string resolved_text(const std::string& key) const;
};

/// Where a result comes from.
struct RunProvenance {
  std::string uuid;  ///< of the run; copies of a file have the same
  std::string command, commit;
  std::string program;   ///< the checksum of the user's program; empty for runs of workloads
  std::string created;   ///< UTC
  bool resumed = false;  ///< whether an earlier run did part of the work
};

struct RunFile {
  std::filesystem::path path;
  RunProvenance provenance;
  std::string workload, device;
  StudyLabels study;
  RunOptions options;
  RunSize size;
  RunTiming timing;
  double work = 0;                        ///< of one repetition, all ranks, in `work_unit`
  std::string work_unit;                  ///< "Tflop", "GB" or "s"
  std::vector<result::Ceiling> ceilings;  ///< none in files of old versions
  double streamed = 0;  ///< bytes that all ranks stream in a repetition; 0: unknown
  std::map<std::string, result::PrintedMetric> metrics;  ///< by key
  /// The files of the inputs as the run found them. Device and inode are unknown.
  std::vector<io::InputFile> inputs;
  /// The values of the result that are the same for the same work, on any number of ranks, by name
  /// ("sum", "checksum of C"): of the tables in /results, the columns of `repeatable_columns`.
  std::map<std::string, std::string> values;
  std::vector<PhaseTime> phases;  ///< in the order of the file; none in files of old versions
  std::vector<result::Step> startup;
  LauncherTime launcher;

  /// Whether the run is a launch of a program of the user.
  bool is_of_program() const { return !provenance.program.empty(); }
  /// The metric's value; empty if there is no such metric.
  std::string text(const std::string& metric) const;
  /// The metric's number; NaN if there is no such number.
  double number(const std::string& metric) const;
  /// The end of the step with this name on the slowest rank, in seconds since the start of the
  /// processes; NaN if there is no such step.
  double step(const std::string& name) const;
  /// The total time of all timed repetitions in seconds.
  double wall() const;
  /// The time to the published result in seconds, since the launcher's start if it is known, else
  /// since the start of the processes; NaN if it is unknown.
  double to_result() const;
  /// The time per repetition in each phase except `stream`, which is the whole repetition. Of
  /// tracks that differ only in their number, such as readers, the slowest one is used, without its
  /// number.
  std::vector<PhaseTime> phases_of_repetition() const;
};

/// The options of a run that can change its result, by key: all except those that say where and how
/// the program runs, and those that name the input files of `run`. Of a program of the user, they
/// are its command, its environment, and what is read from its output.
std::map<std::string, std::string> options_of_result(const RunFile& run);

/// Throws UsageError with the name of the file unless it is a complete result of this schema with
/// plausible times, finite and above zero.
RunFile read_run_file(const std::filesystem::path& path);
/// The same for an open file.
RunFile read_run_file(const io::ResultReader& file, const std::filesystem::path& path);

}  // namespace shardstream::report
