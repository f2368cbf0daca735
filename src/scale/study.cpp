#include "scale/study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "core/text.hpp"
#include "core/units.hpp"
#include "io/output/checkpoint.hpp"
#include "io/output/contents.hpp"
#include "io/output/temporary_files.hpp"
#include "io/source/dataset/page_cache.hpp"
#include "scale/launch/complaint.hpp"
#include "scale/launch/interrupts.hpp"
#include "scale/launch/launch.hpp"
#include "scale/launch/slurm_job.hpp"
#include "scale/progress.hpp"
#include "scale/study_options.hpp"
#include "study_folder/attempts.hpp"
#include "study_folder/lock.hpp"
#include "study_folder/names.hpp"

namespace shardstream::scale {
namespace {

namespace fs = std::filesystem;
using study_folder::LaunchAttempt;

/// The number of a launch for FolderLock.
std::uint64_t lock_number(const PlannedLaunch& launch) {
  return launch.size->ranks * (study_folder::max_replicates + 1) + launch.replicate;
}

bool is_usage_error(const LaunchAttempt& attempt) {
  return attempt.exit_code == static_cast<int>(ExitCode::usage);
}

LaunchAttempt record_of(const PlannedLaunch& launch, std::uint64_t number, const LaunchEnd& ended,
                        const fs::path& log, const std::string& problem) {
  return {.point = label_of(launch),
          .ranks = launch.size->ranks,
          .replicate = launch.replicate,
          .number = number,
          .utc_start = ended.utc_start,
          .utc_end = ended.utc_end,
          .exit_code = ended.code,
          .timed_out = ended.timed_out,
          .interrupted = ended.interrupted,
          .result = study_folder::result_name(name_of(launch)),
          .log = log.filename().string(),
          .job = slurm_job_id(),
          .problem = problem};
}

/// Makes the missing launches of a study.
class Study {
 public:
  Study(const Order& order, Log& log, Interrupts& interrupts)
      : order_(order), log_(log), interrupts_(interrupts), progress_(order) {}

  ExitCode run();

 private:
  /// Whether this command makes the calibration run, and so needs the folder for itself.
  bool calibrates() const {
    return order_.only.empty() || order_.only == name_of(plan_.calibration());
  }
  void begin();
  void open_folder();
  void check_files();
  void calibrate();
  void warn_of_cache() const;
  void warn_of_failure(const PlannedLaunch& launch, const LaunchAttempt& failed);
  LaunchAttempt try_twice(const PlannedLaunch& launch, double timeout);
  bool launch(const PlannedLaunch& launch);
  LaunchAttempt attempt(const PlannedLaunch& launch, std::uint64_t number, double timeout);
  LaunchEnd start(const PlannedLaunch& launch, const fs::path& log, double timeout,
                  Interrupts::Deferral& signals);
  void report_progress(const PlannedLaunch& done, const std::string& time,
                       const std::vector<PlannedLaunch>& remaining);
  fs::path log_of(const LaunchAttempt& attempt) const {
    return progress_.folder().log(attempt.log);
  }

  const Order& order_;
  Log& log_;
  Interrupts& interrupts_;
  Progress progress_;
  const StudyPlan& plan_ = progress_.plan();
  const Results& results_ = progress_.results();
  const study_folder::StudyFolder& folder_ = progress_.folder();
  std::size_t total_ = 0;
  std::optional<study_folder::FolderLock> lock_;
  std::optional<study_folder::AttemptTable> attempts_;
  std::vector<io::InputFile> inputs_;
};

/// Creates and locks the folder of the study, or checks that it contains the same study. A study
/// without any result may be replaced.
void Study::open_folder() {
  folder_.check();
  folder_.expect_only_study();
  folder_.create();
  lock_.emplace(folder_.path(), calibrates() ? 0 : lock_number(progress_.wanted().front()), log_);
  const OptionList now = chosen(order_.options);
  const bool is_study = folder_.has_study();
  const bool differs = is_study && !first_difference(folder_.options(), now).empty();
  const bool has_results = folder_.has_results();
  if (has_results) progress_.expect_same_study();
  check_files();
  const Interrupts::Deferral until_written(interrupts_);
  if (differs && !has_results) folder_.remove_attempts();  // else there are only more launches
  if (differs || !has_results) folder_.write_options(now, plan_.name());
}

/// Throws UsageError if a result in the folder was made with other options, or from input files
/// that differ from the current ones, or if a file that `scale` has not written has the name of a
/// missing result.
void Study::check_files() {
  inputs_ = plan_.inputs();
  std::vector<PlannedLaunch> launches = progress_.wanted();
  launches.push_back(plan_.calibration());
  for (const PlannedLaunch& launch : launches) {
    if (!results_.exists(launch)) {
      const std::string why = results_.why_not_removable(launch);
      if (!why.empty()) throw UsageError(why);
      continue;
    }
    if (const std::string other = results_.change_of_options(launch); !other.empty()) {
      throw UsageError(fmt::format(
          "'{}' contains a result of another study ({}): name another folder with -o, or restore "
          "study.ini and its options",
          folder_.path().string(), other));
    }
    const std::string change = results_.change_of_inputs(launch, inputs_, "now");
    if (change.empty()) continue;
    throw UsageError(fmt::format(
        "the study in '{}' has another input ({}): name another folder with -o, or restore the "
        "input and its time (touch -d)",
        folder_.path().string(), change));
  }
}

/// Starts a launch and waits until it has ended.
LaunchEnd Study::start(const PlannedLaunch& launch, const fs::path& log, double timeout,
                       Interrupts::Deferral& signals) {
  plan_.prepare(launch, log);
  const LaunchEnd ended = execute({.words = plan_.command(launch, log),
                                   .environment = environment_of_runs(order_.environment),
                                   .output = plan_.output_of(log),
                                   .log = log,
                                   .timeout = timeout},
                                  signals);
  if (ended.code != 0) {  // if killed, it may leave these files
    io::EarlierRuns(plan_.result_of(launch)).remove();
    io::remove_stale_parts(plan_.result_of(launch));
  }
  return ended;
}

/// Makes and records one attempt. Throws Error if the input has changed.
LaunchAttempt Study::attempt(const PlannedLaunch& launch, std::uint64_t number, double timeout) {
  std::vector<fs::path> inputs;
  for (const io::InputFile& file : inputs_) inputs.push_back(file.path);
  io::prepare_cache(inputs, plan_.request().cold);
  Interrupts::Deferral signals(interrupts_);  // until the attempt is recorded
  results_.remove(launch);
  const fs::path log = folder_.new_log(name_of(launch), number);
  LaunchEnd ended = start(launch, log, timeout, signals);
  std::string problem = plan_.conclude(launch, ended, log), change;
  if (problem.empty()) problem = results_.problem_of(launch, ended, log);
  if (problem.empty()) {
    change = results_.change_of_inputs(launch, inputs_, "at the start of this study");
    if (!ended.interrupted && ended.code != 0) {
      log_.warn(
          fmt::format("{}: exit code {} after its result was complete: the launch counts (see "
                      "'{}')",
                      name_of(launch), ended.code, log.string()));
    }
  } else if (ended.interrupted) {
    problem = "interrupted";
  } else if (const std::string end = end_of_slurm_job(log, order_.environment); !end.empty()) {
    ended.interrupted = true;
    problem = fmt::format("interrupted, since {}", end);
    log_.warn(fmt::format("{}: {}", name_of(launch), problem));
    interrupts_.stop();
  }
  if (!change.empty()) problem = fmt::format("the input has changed: {}", change);
  const LaunchAttempt attempt = record_of(launch, number, ended, log, problem);
  attempts_->add(attempt);
  if (problem.empty()) progress_.add(launch, ended.seconds);
  if (change.empty()) return attempt;
  results_.remove(launch);
  throw Error(fmt::format(
      "the input has changed during the study ({}): name another folder with -o, or restore the "
      "input and its time (touch -d) and run the same command again",
      change));
}

/// Makes the calibration run at the largest size, unless it exists. It also tests whether the
/// launcher can start so many ranks.
void Study::calibrate() {
  const std::uint64_t ranks = plan_.largest().ranks;
  if (!progress_.is_calibrated()) {
    log_.info("calibrating on " + counted(ranks, "rank"));
    constexpr double default_timeout = 3600;  // there is no prediction yet
    const LaunchAttempt done =
        try_twice(plan_.calibration(), plan_.request().timeout.value_or(default_timeout));
    if (done.interrupted) return;
    if (!done.problem.empty() && interrupts_.request() != StopRequest::none) {
      return warn_of_failure(plan_.calibration(), done);
    }
    if (!done.problem.empty()) {
      const std::string remedy = remedy_of(log_of(done));
      const std::string message = fmt::format(
          "the calibration run on {} has failed ({}): see '{}'{}{}", counted(ranks, "rank"),
          done.problem, log_of(done).string(), remedy.empty() ? "" : "; ", remedy);
      if (is_usage_error(done)) throw UsageError(message);
      throw Error(message);
    }
  }
  progress_.take_conditions();
}

/// Warns if the calibration run found another state of the page cache than scale.cache: the files
/// may not fit into memory, or a file system may not drop them.
void Study::warn_of_cache() const {
  if (!progress_.is_calibrated()) return;  // interrupted
  const std::string is = progress_.calibration().text("page_cache");
  const std::string wanted = plan_.request().cold ? "cold" : "warm";
  if (is.empty() || is == wanted) return;
  log_.warn(fmt::format(
      "scale.cache is {}, but the calibration run found the input files {}: the study measures "
      "this state{}",
      wanted, is,
      plan_.request().cold ? ""
                           : "; files larger than the free memory cannot stay in the page cache"));
}

void Study::report_progress(const PlannedLaunch& launch, const std::string& time,
                            const std::vector<PlannedLaunch>& remaining) {
  double seconds = 0;
  for (const PlannedLaunch& each : remaining) seconds += progress_.expected(each);
  const std::string which =
      launch.measures() ? fmt::format("launch {}", launch.replicate) : label_of(launch);
  log_.info(fmt::format(
      "[{}/{}] {}, {}: {}{}", total_ - remaining.size(), total_,
      counted(launch.size->ranks, "rank"), which, time,
      remaining.empty() ? "" : fmt::format("; about {} left", format_duration(seconds))));
}

/// Makes a launch, and retries it once if it fails, unless the launcher cannot start so many ranks,
/// the run has rejected its options or inputs, or a signal has come. Returns the last attempt. Its
/// problem is for the caller to report.
LaunchAttempt Study::try_twice(const PlannedLaunch& launch, double timeout) {
  const LaunchAttempt first = attempt(launch, 1, timeout);
  const bool is_over = first.interrupted || first.problem.empty();
  if (is_over || !remedy_of(log_of(first)).empty() || is_usage_error(first)) return first;
  if (interrupts_.request() != StopRequest::none) return first;
  warn_of_failure(launch, first);
  return attempt(launch, 2, timeout);
}

void Study::warn_of_failure(const PlannedLaunch& launch, const LaunchAttempt& failed) {
  log_.warn(fmt::format("{} on {}, attempt {} failed: {} (see '{}')", name_of(launch),
                        counted(launch.size->ranks, "rank"), failed.number, failed.problem,
                        log_of(failed).string()));
}

/// Makes a launch with retries. Returns false if it has failed.
bool Study::launch(const PlannedLaunch& launch) {
  const double timeout = plan_.request().timeout.value_or(
      10 * (progress_.expected(launch) + progress_.forecast().max_excess()) + 300);
  const LaunchAttempt done = try_twice(launch, timeout);
  if (done.problem.empty() || done.interrupted) return true;
  warn_of_failure(launch, done);
  return false;
}

/// Opens the folder and makes the calibration run, unless it exists. With --only NAME, it must
/// exist, since several jobs may each make one launch.
void Study::begin() {
  const std::vector<PlannedLaunch> launches = progress_.wanted();
  if (launches.empty() && !calibrates()) {
    throw UsageError(fmt::format("--only: the study has no launch {} (--list shows their names)",
                                 excerpt(order_.only)));
  }
  plan_.launcher().check(calibrates() ? plan_.largest().ranks : launches.front().size->ranks);
  if (!calibrates()) {
    if (folder_.has_results()) progress_.expect_same_study();
    if (!progress_.is_calibrated()) {
      throw UsageError(
          fmt::format("--only: the study in '{}' has no calibration run, which {} needs: first run "
                      "--only {}",
                      folder_.path().string(), order_.only, name_of(plan_.calibration())));
    }
  }
  open_folder();
  attempts_.emplace(order_.folder);
  if (calibrates()) {
    calibrate();
    warn_of_cache();
  } else {
    progress_.take_conditions();
  }
}

ExitCode Study::run() {
  begin();
  std::vector<PlannedLaunch> remaining = progress_.missing();
  total_ = remaining.size();
  std::size_t failed = 0;
  while (!remaining.empty() && interrupts_.request() == StopRequest::none) {
    const PlannedLaunch next = remaining.front();
    remaining.erase(remaining.begin());
    if (!launch(next)) {
      ++failed;
      continue;
    }
    if (interrupts_.request() == StopRequest::now) break;
    const report::RunFile run = report::read_run_file(plan_.result_of(next));
    report_progress(next, format_duration(run.timing.median), remaining);
  }
  if (interrupts_.request() != StopRequest::none) {
    const std::size_t rest = progress_.missing().size() + (progress_.is_calibrated() ? 0 : 1);
    if (rest > 0) {
      log_.info(fmt::format("interrupted with {} left: run the same command again",
                            counted(rest, "launch")));
      return ExitCode::checkpointed;
    }
  }
  return failed > 0 ? ExitCode::failed : ExitCode::done;
}

}  // namespace

fs::path folder_of(const Options& options) {
  if (options.is_default("output.file")) {
    const std::vector<std::string> command =
        command_words("scale.command", options.text("scale.command"));
    return fmt::format("{}-{}",
                       command.empty() ? options.text("run.workload")
                                       : fs::path(command.front()).filename().string(),
                       options.text("scale.mode"));
  }
  const fs::path named = options.text("output.file");
  const fs::path folder = named.has_filename() ? named : named.parent_path();
  std::error_code unreachable;  // reported when the folder is opened
  if (!fs::exists(folder, unreachable)) io::expect_folder_name(folder, "output.file");
  return folder;
}

ExitCode run_study(const Order& order, Log& log) {
  Interrupts interrupts(log);
  return Study(order, log, interrupts).run();
}

}  // namespace shardstream::scale
