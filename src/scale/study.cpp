#include "scale/study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "core/text.hpp"
#include "core/units.hpp"
#include "io/output/checkpoint.hpp"
#include "io/output/temporary_files.hpp"
#include "report/run_file.hpp"
#include "scale/attempts.hpp"
#include "scale/cache.hpp"
#include "scale/complaint.hpp"
#include "scale/folder.hpp"
#include "scale/forecast.hpp"
#include "scale/interrupts.hpp"
#include "scale/lock.hpp"
#include "scale/plan.hpp"
#include "scale/process.hpp"
#include "scale/results.hpp"
#include "scale/study_options.hpp"
#include "workloads/registry.hpp"

namespace shardstream::scale {
namespace {

namespace fs = std::filesystem;

/// Seconds from the start of the launcher to its end in addition to the work, before a calibration
/// run has measured it.
constexpr double assumed_startup = 2;

/// The number of a launch for FolderLock.
std::uint64_t lock_number(const PlannedLaunch& launch) {
  constexpr std::uint64_t max_replicates = 1000;
  return launch.size->ranks * (max_replicates + 1) + launch.replicate;
}

bool is_usage_error(const LaunchAttempt& attempt) {
  return attempt.ended.code == static_cast<int>(ExitCode::usage);
}

class Study {
 public:
  Study(const Order& order, Log* log, Interrupts* interrupts)
      : order_(order),
        log_(log),
        interrupts_(interrupts),
        folder_(order.folder),
        plan_(order.options, order.run_table, order.folder, order.rates),
        results_(plan_, order.options.flag("measure.timeline")),
        forecast_(plan_.largest().predicted.sampling, plan_.largest().predicted.is_minimum) {}

  std::string list();
  ExitCode run();

 private:
  // The plan.
  std::vector<PlannedLaunch> wanted() const;
  std::vector<PlannedLaunch> missing() const;
  double expected(const PlannedLaunch& launch) const;
  double limit(const PlannedLaunch& launch) const;
  std::string listed(const PlannedLaunch& launch) const;
  std::string listed(const std::vector<PlannedLaunch>& launches) const;
  // The work.
  void begin();
  void open_folder();
  void expect_same_study(const Values& now);
  void check_files();
  void calibrate();
  bool is_calibrated() const { return results_.exists(plan_.calibration()); }
  void take_conditions();
  void warn_of_cache() const;
  void warn_of_failure(const PlannedLaunch& launch, const LaunchAttempt& failed);
  LaunchAttempt try_twice(const PlannedLaunch& launch, double timeout);
  bool launch(const PlannedLaunch& launch);
  LaunchAttempt attempt(const PlannedLaunch& launch, std::uint64_t number, double timeout);
  void report_progress(const PlannedLaunch& launch, const std::string& time,
                       const std::vector<PlannedLaunch>& left);
  report::RunFile calibration() const {
    return report::read_run_file(plan_.result_of(plan_.calibration()));
  }
  const char* at_least(bool repeats) const {
    const bool may_repeat = repeats && forecast_.max_excess() > 0;
    return may_repeat || forecast_.is_minimum() ? "at least " : "";
  }

  const Order& order_;
  Log* log_;
  Interrupts* interrupts_;
  StudyFolder folder_;
  StudyPlan plan_;
  Results results_;
  Forecast forecast_;
  std::size_t total_ = 0;
  std::optional<FolderLock> lock_;
  std::optional<Attempts> attempts_;
  std::vector<io::InputFile> inputs_;
};

/// The launches that are requested.
std::vector<PlannedLaunch> Study::wanted() const {
  std::vector<PlannedLaunch> launches = plan_.launches();
  std::erase_if(launches, [&](const PlannedLaunch& launch) {
    return !order_.only.empty() && order_.only != name_of(launch);
  });
  return launches;
}

/// The requested launches without a complete result.
std::vector<PlannedLaunch> Study::missing() const {
  std::vector<PlannedLaunch> launches = wanted();
  std::erase_if(launches, [&](const PlannedLaunch& launch) { return results_.exists(launch); });
  return launches;
}

/// The predicted total time of a launch in seconds.
double Study::expected(const PlannedLaunch& launch) const {
  const double predicted = launch.size->predicted.seconds;
  return launch.measures() ? forecast_.launch(launch.size->ranks, predicted)
                           : forecast_.single(predicted);
}

/// A safe limit of the total time of a launch in seconds, before which it ends by itself.
double Study::limit(const PlannedLaunch& launch) const {
  return 2 * expected(launch) + (launch.measures() ? forecast_.max_excess() : 0);
}

/// The lines of a launch for --list: its name, predicted times, and command.
std::string Study::listed(const PlannedLaunch& launch) const {
  const PlannedSize& size = *launch.size;
  const std::string work =
      plan_.request().weak
          ? fmt::format(", {:.4g} times the work of the smallest size", size.scaled.factor)
          : "";
  return fmt::format(
      "# {}: {}, {}{} per launch, {}{} per repetition{}\n{}\n", name_of(launch),
      counted(size.ranks, "rank"), at_least(launch.measures()), format_duration(expected(launch)),
      format_duration(forecast_.repetition(size.predicted.seconds)),
      forecast_.is_minimum() ? " or more" : "", work, shell_line(plan_.command(launch)));
}

std::string Study::list() {
  folder_.check();
  if (folder_.has_results()) expect_same_study(chosen(order_.options));
  std::string text = fmt::format("# folder: {}\n", printable(folder_.path().string()));
  if (const std::string problem = plan_.launcher().warning(plan_.largest().ranks);
      !problem.empty()) {
    text += fmt::format("# warning: {}\n", problem);
  }
  const bool knows_conditions = is_calibrated();
  if (knows_conditions) {
    take_conditions();
  } else {
    forecast_.assume_startup(assumed_startup);
    text += fmt::format(
        "# There is no calibration run yet: times assume {} for the start and end of a launch, "
        "and\n"
        "# commands still lack the options for equal conditions, which that run sets.\n",
        format_duration(assumed_startup));
  }
  for (const std::string& line : plan_.largest().predicted.machine) {
    text += fmt::format("# {}\n", printable(line));
  }
  if (!knows_conditions) {
    text +=
        "# --rates FILE is only for this list. All other options, such as --device.backend, "
        "define\n"
        "# the study: give the same ones to each of its commands.\n";
  }
  std::vector<PlannedLaunch> launches = missing();
  if (!knows_conditions) launches.insert(launches.begin(), plan_.calibration());
  return text + listed(launches);
}

/// The lines of the launches for --list, their total, and suggested time limits.
std::string Study::listed(const std::vector<PlannedLaunch>& launches) const {
  std::string text;
  double total = 0, limit_of_all = 0, longest = 0;
  for (const PlannedLaunch& launch : launches) {
    text += listed(launch);
    total += expected(launch);
    limit_of_all += limit(launch);
    longest = std::max(longest, limit(launch));
  }
  const bool repeats = std::ranges::any_of(launches, &PlannedLaunch::measures);
  text += fmt::format("# total: {}, {}{}\n", counted(launches.size(), "launch"), at_least(repeats),
                      format_duration(total));
  if (launches.empty()) return text;
  return text + fmt::format(
                    "# suggested time limit: {} for one job with all launches, {} for a "
                    "job with one launch\n",
                    suggested_limit(limit_of_all), suggested_limit(longest));
}

/// Takes over the name of the study in the folder. Throws UsageError with the first difference if
/// its options differ from `now`, unless `now` extends it.
void Study::expect_same_study(const Values& now) {
  const auto then = folder_.options();
  if (then.contains("study.name")) plan_.rename(then.at("study.name"));
  const std::string difference = first_difference(then, now);
  if (difference.empty() || extends(then, now)) return;
  const bool is_of_size =
      difference.starts_with("scale.ranks ") || difference.starts_with("scale.replicates ");
  throw UsageError(fmt::format(
      "'{}' contains another study ({}): name another folder with -o, or give the options of that "
      "study{}",
      folder_.path().string(), difference,
      is_of_size
          ? "; a study can get more replicates and more sizes, but none less, and its largest "
            "size (in a weak study also the smallest) cannot change, since the conditions "
            "of all launches depend on it"
          : ""));
}

/// Creates and locks the folder of the study, or checks that it contains the same study. A study
/// without any result may be replaced.
void Study::open_folder() {
  folder_.check();
  folder_.expect_only_study();
  folder_.create();
  const bool is_alone = order_.only.empty() || order_.only == name_of(plan_.calibration());
  lock_.emplace(folder_.path(), is_alone ? 0 : lock_number(wanted().front()), *log_);
  const Values now = chosen(order_.options);
  const bool is_study = folder_.has_study();
  const bool differs = is_study && !first_difference(folder_.options(), now).empty();
  const bool has_results = folder_.has_results();
  if (has_results) expect_same_study(now);
  check_files();
  const Interrupts::Deferral until_written(*interrupts_);
  if (differs && !has_results) folder_.remove_attempts();  // else there are only more launches
  if (differs || !has_results) folder_.write_options(now, plan_.name());
}

/// Throws UsageError if a result in the folder was made with other options, or from input files
/// that differ from the current ones, or if a file that `scale` has not written has the name of a
/// missing result.
void Study::check_files() {
  inputs_ = workloads::open(order_.options)->inputs().files;
  std::vector<PlannedLaunch> launches = wanted();
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

LaunchAttempt Study::attempt(const PlannedLaunch& launch, std::uint64_t number, double timeout) {
  std::vector<fs::path> inputs;
  for (const io::InputFile& file : inputs_) inputs.push_back(file.path);
  prepare_cache(inputs, plan_.request().cold);
  Interrupts::Deferral signals(*interrupts_);  // until the attempt is recorded
  LaunchAttempt attempt = results_.as_if_done(launch);
  attempt.number = number;
  results_.remove(launch);
  attempt.log = folder_.new_log(name_of(launch), number);
  attempt.ended = scale::run({.words = plan_.command(launch),
                              .environment = environment_of_runs(order_.environment),
                              .log = attempt.log,
                              .timeout = timeout},
                             signals);
  if (attempt.ended.code != 0) {  // if killed, it may leave these files
    io::EarlierRuns(attempt.result).remove();
    io::remove_stale_parts(attempt.result);
  }
  attempt.problem = results_.problem_of(attempt);
  if (attempt.ended.interrupted) {
    if (!attempt.problem.empty()) attempt.problem = "interrupted";
  } else if (attempt.problem.empty() && attempt.ended.code != 0) {
    log_->warn(
        fmt::format("{}: exit code {} after its result was complete: the launch counts (see "
                    "'{}')",
                    name_of(launch), attempt.ended.code, attempt.log.string()));
  }
  std::string change;
  if (attempt.problem.empty()) {
    change = results_.change_of_inputs(launch, inputs_, "at the start of this study");
  }
  if (!change.empty()) attempt.problem = fmt::format("the input has changed: {}", change);
  attempts_->add(attempt);
  if (change.empty()) return attempt;
  results_.remove(launch);
  throw Error(fmt::format(
      "the input has changed during the study ({}): name another folder with -o, or restore the "
      "input and its time (touch -d) and run the same command again",
      change));
}

void Study::take_conditions() {
  const report::RunFile run = calibration();
  plan_.take_conditions(run);
  forecast_.calibrate(run.step("store"), run.seconds, plan_.largest().predicted.seconds);
}

/// Makes the calibration run at the largest size, unless it exists. It also tests whether the
/// launcher can start so many ranks.
void Study::calibrate() {
  const std::uint64_t ranks = plan_.largest().ranks;
  if (!is_calibrated()) {
    log_->info("calibrating on " + counted(ranks, "rank"));
    constexpr double default_timeout = 3600;  // there is no prediction yet
    const LaunchAttempt done =
        try_twice(plan_.calibration(), plan_.request().timeout.value_or(default_timeout));
    if (done.ended.interrupted) return;
    if (!done.problem.empty() && interrupts_->request() != StopRequest::none) {
      return warn_of_failure(plan_.calibration(), done);
    }
    if (!done.problem.empty()) {
      const std::string remedy = remedy_of(done.log);
      const std::string message = fmt::format(
          "the calibration run on {} has failed ({}): see '{}'{}{}", counted(ranks, "rank"),
          done.problem, done.log.string(), remedy.empty() ? "" : "; ", remedy);
      if (is_usage_error(done)) throw UsageError(message);
      throw Error(message);
    }
  }
  take_conditions();
}

/// Warns if the calibration run found another state of the page cache than scale.cache: the files
/// may not fit into memory, or a file system may not drop them.
void Study::warn_of_cache() const {
  if (!is_calibrated()) return;  // interrupted
  const std::string is = calibration().text("page_cache");
  const std::string wanted = plan_.request().cold ? "cold" : "warm";
  if (is.empty() || is == wanted) return;
  log_->warn(fmt::format(
      "scale.cache is {}, but the calibration run found the input files {}: the study measures "
      "this "
      "state{}",
      wanted, is,
      plan_.request().cold ? ""
                           : "; files larger than the free memory cannot stay in the page cache"));
}

void Study::report_progress(const PlannedLaunch& launch, const std::string& time,
                            const std::vector<PlannedLaunch>& left) {
  double seconds = 0;
  for (const PlannedLaunch& each : left) seconds += expected(each);
  const std::string which =
      launch.measures() ? fmt::format("launch {}", launch.replicate) : label_of(launch);
  log_->info(fmt::format(
      "[{}/{}] {}, {}: {}{}", total_ - left.size(), total_, counted(launch.size->ranks, "rank"),
      which, time, left.empty() ? "" : fmt::format("; about {} left", format_duration(seconds))));
}

/// Makes a launch, and retries it once if it fails, unless the launcher cannot start so many ranks,
/// the run has rejected its options or inputs, or a signal has come. Returns the last attempt. Its
/// problem is for the caller to report.
LaunchAttempt Study::try_twice(const PlannedLaunch& launch, double timeout) {
  const LaunchAttempt first = attempt(launch, 1, timeout);
  const bool is_over = first.ended.interrupted || first.problem.empty();
  if (is_over || !remedy_of(first.log).empty() || is_usage_error(first)) return first;
  if (interrupts_->request() != StopRequest::none) return first;
  warn_of_failure(launch, first);
  return attempt(launch, 2, timeout);
}

void Study::warn_of_failure(const PlannedLaunch& launch, const LaunchAttempt& failed) {
  log_->warn(fmt::format("{} on {}, attempt {} failed: {} (see '{}')", name_of(launch),
                         counted(launch.size->ranks, "rank"), failed.number, failed.problem,
                         failed.log.string()));
}

/// Makes a launch with retries. Returns false if it has failed.
bool Study::launch(const PlannedLaunch& launch) {
  const double timeout =
      plan_.request().timeout.value_or(10 * (expected(launch) + forecast_.max_excess()) + 300);
  const LaunchAttempt done = try_twice(launch, timeout);
  if (done.problem.empty() && launch.measures()) {
    forecast_.add(launch.size->ranks, done.ended.seconds, launch.size->predicted.seconds);
  }
  if (done.problem.empty() || done.ended.interrupted) return true;
  warn_of_failure(launch, done);
  return false;
}

/// Opens the folder and makes the calibration run, unless it exists. With --only NAME, it must
/// exist, since several jobs may each make one launch.
void Study::begin() {
  const std::string first = name_of(plan_.calibration());
  const bool calibrates = order_.only.empty() || order_.only == first;
  const std::vector<PlannedLaunch> launches = wanted();
  if (launches.empty() && !calibrates) {
    throw UsageError(fmt::format("--only: the study has no launch {} (--list shows their names)",
                                 excerpt(order_.only)));
  }
  plan_.launcher().check(calibrates ? plan_.largest().ranks : launches.front().size->ranks);
  if (!calibrates) {
    if (folder_.has_results()) expect_same_study(chosen(order_.options));
    if (!is_calibrated()) {
      throw UsageError(
          fmt::format("--only: the study in '{}' has no calibration run, which {} needs: first run "
                      "--only {}",
                      folder_.path().string(), order_.only, first));
    }
  }
  open_folder();
  attempts_.emplace(order_.folder);
  if (calibrates) {
    calibrate();
    warn_of_cache();
  } else {
    take_conditions();
  }
}

ExitCode Study::run() {
  begin();
  std::vector<PlannedLaunch> left = missing();
  total_ = left.size();
  std::size_t failed = 0;
  while (!left.empty() && interrupts_->request() == StopRequest::none) {
    const PlannedLaunch next = left.front();
    left.erase(left.begin());
    if (!launch(next)) {
      ++failed;
      continue;
    }
    if (interrupts_->request() == StopRequest::now) break;
    const report::RunFile run = report::read_run_file(plan_.result_of(next));
    report_progress(next, format_duration(run.seconds), left);
  }
  if (interrupts_->request() != StopRequest::none) {
    const std::size_t rest = missing().size() + (is_calibrated() ? 0 : 1);
    if (rest > 0) {
      log_->info(fmt::format("interrupted with {} left: run the same command again",
                             counted(rest, "launch")));
      return ExitCode::checkpointed;
    }
  }
  return failed > 0 ? ExitCode::failed : ExitCode::done;
}

}  // namespace

fs::path folder_of(const Options& options) {
  if (options.is_default("output.file")) {
    return fmt::format("{}-{}", options.text("run.workload"), options.text("scale.mode"));
  }
  const fs::path folder = options.text("output.file");
  return folder.has_filename() ? folder : folder.parent_path();
}

std::string list_study(const Order& order) {
  return Study(order, nullptr, nullptr).list();
}

ExitCode run_study(const Order& order, Log& log) {
  Interrupts interrupts(log);
  return Study(order, &log, &interrupts).run();
}

}  // namespace shardstream::scale
