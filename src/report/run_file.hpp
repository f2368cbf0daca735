// The parts of one result file of `run` that reports need.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/table.hpp"
#include "io/hdf5/result_file.hpp"

namespace shardstream::report {

/// A number or a word that the run has printed; `number` is NaN for a word.
struct Metric {
  std::string value;
  double number;
  std::string unit;
};

/// When a step of the start was done; see run/startup.hpp.
struct Step {
  std::string name;
  double first, last, utc;
};

/// The slowest rank's seconds in a phase of a track, inside the timed repetitions; host and device
/// together.
struct PhaseTime {
  std::string track, phase, kind;
  double seconds = 0;
};

/// What the launcher of a run took, by the study's table of attempts. Seconds; NaN: unknown.
struct LauncherTime {
  double start = std::nan("");    ///< until the run's processes started
  double end = std::nan("");      ///< after the run's file was published
  std::size_t number = SIZE_MAX;  ///< the launch's place among the attempts
};

/// A track's name without its number: "reader 0" and "reader 1" are of the kind "reader".
std::string kind_of_track(const std::string& track);

struct RunFile {
  std::filesystem::path path;
  std::string workload;
  std::string study, mode, point;  ///< the labels of a study; `mode` is strong, weak or none
  std::uint64_t replicate = 0;
  std::uint64_t ranks = 1, hosts = 1, gpus = 0;
  std::vector<double> repetitions;  ///< seconds
  std::int64_t throttled = 0;       ///< repetitions in which a GPU was throttled
  double seconds = 0;               ///< the median of the repetitions
  double work = 0;                  ///< of one repetition, all ranks, in `work_unit`
  std::string work_unit;            ///< "Tflop", "GB" or "s"
  std::string sampling;             ///< fixed, converged or unconverged
  std::string uuid;                 ///< of the run; copies of a file have the same
  std::string command, commit, device, created;
  bool resumed = false;                       ///< part of the work was done by an earlier run
  std::map<std::string, std::string> config;  ///< the options, by key
  std::map<std::string, Metric> metrics;      ///< what was printed, by key
  std::vector<PhaseTime> phases;  ///< in the order of the file; none in files of old versions
  std::vector<Step> startup;      ///< in the order of time
  LauncherTime launcher;

  /// The metric's value; empty if there is no such metric.
  std::string text(const std::string& metric) const;
  /// The metric's number; NaN if there is no such number.
  double number(const std::string& metric) const;
  /// The value of an option; empty if the file has none.
  std::string option(const std::string& key) const;
  /// The step of that name, in seconds since the processes started, of the last rank; NaN if the
  /// run had no such step.
  double step(const std::string& name) const;
  /// Seconds of all timed repetitions together.
  double wall() const;
  /// Seconds until the result was there, from the launcher's start if that is known, else from the
  /// start of the processes; NaN if the file does not say.
  double to_result() const;
  /// Seconds a repetition in each phase but `stream`, which is all of it. Tracks that differ in
  /// their number alone, as the readers do, are one: the slowest, without its number.
  std::vector<PhaseTime> phases_of_repetition() const;
};

/// Throws UsageError, which names the file, unless it is a complete result of this schema with
/// times that can be: finite and above zero.
RunFile read_run_file(const std::filesystem::path& path);
/// The same of an open file.
RunFile read_run_file(const io::ResultReader& file, const std::filesystem::path& path);

}  // namespace shardstream::report
