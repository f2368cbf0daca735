#include "scale/study.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/crc.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <vector>

#include "core/text.hpp"
#include "core/units.hpp"
#include "io/result_file.hpp"
#include "measure/machine.hpp"
#include "measure/sample.hpp"
#include "report/run_file.hpp"
#include "report/study_ini.hpp"
#include "scale/attempts.hpp"
#include "scale/cache.hpp"
#include "scale/complaint.hpp"
#include "scale/forecast.hpp"
#include "scale/launcher.hpp"
#include "scale/options.hpp"
#include "scale/process.hpp"
#include "study/labels.hpp"
#include "workloads/registry.hpp"

namespace shardstream::scale {
namespace {

namespace fs = std::filesystem;
using Values = std::vector<std::pair<std::string, std::string>>;

/// The dry run of a point.
struct Predicted {
  double seconds = 0;                ///< of a repetition
  measure::Sampling sampling;        ///< of a launch
  std::vector<std::string> machine;  ///< the backend and the rates that the prediction uses
};

/// One number of ranks.
struct Point {
  std::string name;  // "p4"
  std::uint64_t ranks;
  workloads::Scaled scaled;  // what differs from the smallest point, for weak scaling
  Predicted predicted = {};
};

/// One launch to do.
struct Launch {
  const Point* point;
  std::uint64_t replicate;  // from 1
};

/// The options of a study that are not the default, and those by which reports know which launches
/// are missing; in the order of their keys.
Values chosen(const Options& options) {
  Values values;
  for (const auto& [key, value] : options.all()) {
    const bool is_needed_by_report = key == "scale.ranks" || key == "scale.replicates";
    if (key == "output.file" || (options.is_default(key) && !is_needed_by_report)) continue;
    values.emplace_back(key, value.text);
  }
  return values;
}

std::string ini_of(const Values& values, const std::string& name) {
  std::string text = fmt::format(
      "# A scaling study; shardstream scale has written this file.\n"
      "[study]\nname = {}\n",
      name);
  std::string section;
  for (const auto& [key, value] : values) {
    const std::string of_key = key.substr(0, key.find('.'));
    if (of_key != section) text += fmt::format("\n[{}]\n", of_key);
    section = of_key;
    text += fmt::format("{} = {}\n", key.substr(section.size() + 1), value);
  }
  return text;
}

/// "KEY was VALUE and is VALUE now" of the first option that differs; empty if none does.
std::string first_difference(std::map<std::string, std::string> then, const Values& now) {
  then.erase("study.name");
  std::map<std::string, std::string> current(now.begin(), now.end());
  const auto text = [](const std::map<std::string, std::string>& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? std::string("not given") : excerpt(found->second);
  };
  for (const auto* side : {&then, &current}) {
    for (const auto& [key, value] : *side) {
      const std::string was = text(then, key), is = text(current, key);
      if (was != is) return fmt::format("{} was {} and is {} now", key, was, is);
    }
  }
  return {};
}

constexpr std::uint64_t of_calibration = 0;  // a replicate
constexpr std::string_view calibration_name = "calibration";

class Study {
 public:
  Study(const Order& order, Log* log);

  std::string list();
  ExitCode run();

 private:
  // The plan.
  std::vector<Point> points() const;
  Predicted predict(const Point& point, const Values& conditions) const;
  double expected(const Point& point) const {
    return forecast_.launch(point.ranks, point.predicted.seconds);
  }
  std::uint64_t first_gpu(const Point& point, std::uint64_t replicate) const;
  std::vector<std::string> words(const Point& point, std::uint64_t replicate,
                                 const fs::path& result, const Values& conditions) const;
  std::vector<Launch> ordered() const;
  std::vector<Launch> missing() const;
  std::string listed(const Launch& launch) const;
  // The work.
  void begin();
  void open_folder();
  void expect_same_study(const Values& now);
  bool has_results() const;
  void calibrate();
  bool is_calibrated() const;
  void take_conditions();
  void warn_of_cache() const;
  Values conditions_of(const report::RunFile& calibration) const;
  Attempt try_twice(const Launch& launch, const Values& conditions, double timeout);
  bool launch(const Launch& launch);
  Attempt attempt(const Point& point, std::uint64_t replicate, std::uint64_t number,
                  const fs::path& result, const Values& conditions, double timeout);
  std::string problem_of(const Attempt& attempt, const Point& point) const;
  void tell(const Launch& launch, const std::string& what, const std::vector<Launch>& left);

  const char* at_least() const { return forecast_.is_minimum() ? "at least " : ""; }
  static std::string name_of(const Launch& launch) {
    if (launch.replicate == of_calibration) return std::string(calibration_name);
    return report::launch_name(launch.point->ranks, launch.replicate);
  }
  fs::path result_of(const Launch& launch) const {
    return order_.folder / (name_of(launch) + ".h5");
  }
  fs::path calibration() const { return order_.folder / "calibration.h5"; }

  const Order& order_;
  Log* log_;
  Request request_;
  const workloads::Workload& workload_;
  Launcher launcher_;
  std::string program_, name_;
  std::vector<Point> points_;
  Values conditions_;  // options that give ranks the same at every size
  Forecast forecast_{measure::Sampling{}};
  std::size_t total_ = 0;
  std::optional<Attempts> attempts_;
  std::optional<Interrupts> interrupts_;
  std::vector<fs::path> inputs_;
};

Study::Study(const Order& order, Log* log)
    : order_(order),
      log_(log),
      request_(request_of(order.options)),
      workload_(workloads::named(order.options.text("run.workload"))),
      launcher_(request_) {
  if (request_.grow == "auto") request_.grow = workload_.grows.front();
  if (std::ranges::find(workload_.grows, request_.grow) == workload_.grows.end()) {
    throw UsageError(fmt::format("scale.grow: {} cannot grow {} (known: {})", workload_.name,
                                 excerpt(request_.grow), join_or(workload_.grows)));
  }
  program_ = fs::read_symlink("/proc/self/exe").string();
  points_ = points();
  const std::string ini = ini_of(chosen(order.options), "");
  boost::crc_32_type crc;  // so that --list and the study itself agree
  crc.process_bytes(ini.data(), ini.size());
  name_ = fmt::format("{}-{:08x}", fs::absolute(order.folder).filename().string(), crc.checksum());
  for (Point& point : points_) point.predicted = predict(point, {});
  forecast_ = Forecast(points_.back().predicted.sampling);
}

std::vector<Point> Study::points() const {
  std::vector<Point> points;
  for (const std::uint64_t ranks : request_.ranks) {
    Point point{.name = fmt::format("p{}", ranks), .ranks = ranks, .scaled = {}};
    if (request_.weak) {
      const double factor =
          static_cast<double>(ranks) / static_cast<double>(request_.ranks.front());
      point.scaled = workload_.scaled(order_.options, factor, request_.grow);
    }
    points.push_back(std::move(point));
  }
  return points;
}

/// The words after the launcher's own: a run as a user would type it.
std::vector<std::string> Study::words(const Point& point, std::uint64_t replicate,
                                      const fs::path& result, const Values& conditions) const {
  Values values;
  const auto set = [&](const std::string& key, const std::string& value) {
    const auto found = std::ranges::find(values, key, &Values::value_type::first);
    if (found == values.end()) {
      values.emplace_back(key, value);
    } else {
      found->second = value;
    }
  };
  for (const auto& [key, value] : chosen(order_.options)) {
    const bool is_for_run = std::ranges::find(order_.run_table.rows(), key, &OptionRow::key) !=
                            order_.run_table.rows().end();
    const bool is_of_other = workloads::is_of_some_workload(key) && !workload_.takes(key);
    if (is_for_run && !is_of_other && key != "run.workload") set(key, value);
  }
  for (const auto& [key, value] : point.scaled.options) set(key, value);
  const auto set_default = [&](const std::string& key, const std::string& value) {
    if (order_.options.is_default(key)) set(key, value);
  };
  if (workload_.takes("output.store")) set_default("output.store", "false");
  set_default("measure.repeat", "auto");
  if (request_.oversubscribe) set_default("device.oversubscribe", "true");
  for (const auto& [key, value] : conditions) set_default(key, value);
  if (std::ranges::find(conditions, std::pair<std::string, std::string>(
                                        "device.backend", "cuda")) != conditions.end()) {
    set_default("device.first", std::to_string(first_gpu(point, replicate)));
  }
  if (replicate == of_calibration) {
    set("measure.repeat", "1");
    set("measure.warmup", "1");
    set("measure.timeline", "false");
  }
  set("launch.expect-ranks", std::to_string(point.ranks));
  set("study.name", name_);
  set("study.mode", request_.weak ? "weak" : "strong");
  set("study.point", replicate == of_calibration ? std::string(calibration_name) : point.name);
  set("study.replicate", std::to_string(replicate));
  std::vector<std::string> words = {program_, "run", std::string(workload_.name)};
  for (const auto& [key, value] : values) words.push_back(fmt::format("--{}={}", key, value));
  words.insert(words.end(), {"-o", result.string()});
  return words;
}

/// Launches that leave GPUs of a node idle take other ones in each replicate, so that differences
/// between GPUs show as scatter.
std::uint64_t Study::first_gpu(const Point& point, std::uint64_t replicate) const {
  const std::uint64_t all = launcher_.ranks_on_node(points_.back().ranks);
  const std::uint64_t some = launcher_.ranks_on_node(point.ranks);
  return some == all || replicate == of_calibration ? 0 : (replicate - 1) * some % all;
}

/// The dry run of the point. Checks the run's options and inputs.
Predicted Study::predict(const Point& point, const Values& conditions) const {
  std::vector<std::string> arguments =
      words(point, 1, order_.folder / (point.name + "-r1.h5"), conditions);
  arguments.erase(arguments.begin(), arguments.begin() + 2);
  arguments[0] = "--run.workload=" + arguments[0];
  const char* const nothing[] = {nullptr};
  const Options options = order_.run_table.resolve(order_.run_table.parse_command_line(arguments),
                                                   nothing, std::nullopt);
  measure::Machine machine(
      options, {.ranks = point.ranks, .ranks_on_host = launcher_.ranks_on_node(point.ranks)});
  const double seconds = workloads::open(options)->predict(machine).seconds;
  return {seconds, measure::sampling(options), machine.lines()};
}

/// The launches that are wanted, replicate by replicate, each in a random order.
std::vector<Launch> Study::ordered() const {
  std::vector<Launch> launches;
  for (std::uint64_t replicate = 1; replicate <= request_.replicates; ++replicate) {
    std::vector<const Point*> order;
    for (const Point& point : points_) order.push_back(&point);
    std::mt19937_64 random(request_.seed * 1'000'003 + replicate);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
    for (const Point* point : order) {
      const Launch launch{point, replicate};
      if (order_.only.empty() || order_.only == name_of(launch)) launches.push_back(launch);
    }
  }
  return launches;
}

/// Those of them without a complete result.
std::vector<Launch> Study::missing() const {
  std::vector<Launch> launches = ordered();
  std::erase_if(launches, [&](const Launch& launch) {
    const Attempt as_if{
        .point = launch.point->name, .replicate = launch.replicate, .result = result_of(launch)};
    return problem_of(as_if, *launch.point).empty();
  });
  return launches;
}

/// A launch for --list: its name, what is known of it, and its command.
std::string Study::listed(const Launch& launch) const {
  const Point& point = *launch.point;
  std::vector<std::string> line = launcher_.words(point.ranks);
  const auto run = words(point, launch.replicate, result_of(launch), conditions_);
  line.insert(line.end(), run.begin(), run.end());
  const std::string work =
      request_.weak
          ? fmt::format(", {:.4g} times the work of the smallest size", point.scaled.factor)
          : "";
  return fmt::format("# {}: {}, {}{} a launch, {} a repetition{}\n{}\n", name_of(launch),
                     counted(point.ranks, "rank"), at_least(), format_duration(expected(point)),
                     format_duration(point.predicted.seconds), work, shell_line(line));
}

std::string Study::list() {
  if (has_results()) expect_same_study(chosen(order_.options));
  std::string text = fmt::format("# folder: {}\n", printable(order_.folder.string()));
  if (is_calibrated()) {
    take_conditions();
  } else {
    text +=
        "# Times lack the start of a launch, and commands the options for equal conditions:\n"
        "# both come from the calibration run.\n";
    text += listed({&points_.back(), of_calibration});
  }
  for (const std::string& line : points_.back().predicted.machine) {
    text += fmt::format("# {}\n", printable(line));
  }
  double total = 0;
  const std::vector<Launch> launches = missing();
  for (const Launch& launch : launches) {
    text += listed(launch);
    total += expected(*launch.point);
  }
  return text + fmt::format("# {}, {}{} in all\n", counted(launches.size(), "launch"), at_least(),
                            format_duration(total));
}

/// Whether the folder holds a study of which a launch has left a result.
bool Study::has_results() const {
  std::error_code none;
  if (!fs::exists(order_.folder / "study.ini")) return false;
  return std::ranges::any_of(fs::directory_iterator(order_.folder, none),
                             [](const auto& entry) { return entry.path().extension() == ".h5"; });
}

/// Takes the name of the study in the folder. Throws UsageError with the first difference unless
/// its options are those of `now`.
void Study::expect_same_study(const Values& now) {
  const auto then = report::read_study_ini(order_.folder);
  if (then.contains("study.name")) name_ = then.at("study.name");
  const std::string difference = first_difference(then, now);
  if (difference.empty()) return;
  throw UsageError(
      fmt::format("'{}' holds another study: {}: name another folder with -o, or give the options "
                  "of that study",
                  order_.folder.string(), difference));
}

/// Makes the folder of the study, or finds that it is the same study's. A study without any result
/// gives way to another one.
void Study::open_folder() {
  const Values now = chosen(order_.options);
  std::error_code error;
  const bool is_study = fs::exists(order_.folder / "study.ini");
  if (!is_study && fs::exists(order_.folder) && !fs::is_empty(order_.folder, error)) {
    throw UsageError(
        fmt::format("output.file: '{}' is a folder with other files and no study: name a new one",
                    order_.folder.string()));
  }
  fs::create_directories(order_.folder / "logs", error);
  if (error) {
    throw UsageError(fmt::format("output.file: cannot make the folder '{}': {}",
                                 order_.folder.string(), error.message()));
  }
  if (has_results()) {
    expect_same_study(now);
    return;
  }
  if (is_study && !first_difference(report::read_study_ini(order_.folder), now).empty()) {
    fs::remove(order_.folder / "attempts.jsonl");
  }
  std::ofstream file(order_.folder / "study.ini");
  file << ini_of(now, name_);
  if (!file.flush()) {
    throw UsageError(
        fmt::format("output.file: cannot write '{}'", (order_.folder / "study.ini").string()));
  }
}

/// Why the launch does not count; empty: it does. An exit code of 0 alone proves nothing, since
/// launchers differ in what they return.
std::string Study::problem_of(const Attempt& attempt, const Point& point) const {
  if (attempt.ended.timed_out) {
    return fmt::format("it did not end within {}: see --scale.timeout",
                       format_duration(attempt.ended.seconds));
  }
  if (attempt.ended.code != 0) {
    const std::string said = complaint_of(attempt.log);
    return fmt::format("exit code {}{}{}", attempt.ended.code, said.empty() ? "" : ": ", said);
  }
  try {
    const report::RunFile run = report::read_run_file(attempt.result);
    if (run.ranks != point.ranks) {
      return fmt::format("its result is of {} ranks", run.ranks);
    }
    if (run.study != name_ || run.point != attempt.point || run.replicate != attempt.replicate) {
      return "its result is of another point or study";
    }
    if (run.resumed) return "it has resumed an interrupted run";
    return {};
  } catch (const UsageError& error) {
    return fmt::format("it left no result: {}", error.what());
  }
}

Attempt Study::attempt(const Point& point, std::uint64_t replicate, std::uint64_t number,
                       const fs::path& result, const Values& conditions, double timeout) {
  prepare_cache(inputs_, request_.cold);
  std::error_code ignored;
  fs::remove(result, ignored);  // of an earlier attempt that does not count
  const bool calibrates = replicate == of_calibration;
  Attempt attempt{
      .point = calibrates ? std::string(calibration_name) : point.name,
      .ranks = point.ranks,
      .replicate = replicate,
      .number = number,
      .result = result,
      .log = order_.folder / "logs" / fmt::format("{}-a{}.log", result.stem().string(), number)};
  std::vector<std::string> line = launcher_.words(point.ranks);
  const auto run_words = words(point, replicate, result, conditions);
  line.insert(line.end(), run_words.begin(), run_words.end());
  attempt.ended = scale::run({.words = std::move(line),
                              .environment = environment_of_runs(order_.environment),
                              .log = attempt.log,
                              .timeout = timeout},
                             *interrupts_);
  attempt.problem = attempt.ended.interrupted ? "interrupted" : problem_of(attempt, point);
  attempts_->add(attempt);
  return attempt;
}

/// The options that give a rank the same at every size: those of the largest.
Values Study::conditions_of(const report::RunFile& run) const {
  Values values = {{"measure.rates", run.path.string()}};
  if (!workload_.takes("measure.rates")) values.clear();
  const io::ResultReader file(run.path);
  const Table ranks = file.table("/topology/ranks", {{"threads", ColumnType::integer}});
  std::int64_t threads = INT64_MAX;
  for (const Row& row : ranks.rows()) threads = std::min(threads, row.get<std::int64_t>("threads"));
  values.emplace_back("launch.cpus-per-rank", std::to_string(threads));
  for (const OptionRow& row : order_.run_table.rows()) {
    const std::string key(row.key);
    if (!key.starts_with("pipeline.") && key != "device.backend") continue;
    if (workloads::is_of_some_workload(key) && !workload_.takes(key)) continue;
    std::string value = file.text("/config/resolved", key);
    if (const auto number = file.integer("/config/resolved", key)) value = std::to_string(*number);
    if (!value.empty()) values.emplace_back(key, value);
  }
  return values;
}

bool Study::is_calibrated() const {
  const Attempt as_if{
      .point = std::string(calibration_name), .replicate = of_calibration, .result = calibration()};
  return problem_of(as_if, points_.back()).empty();
}

void Study::take_conditions() {
  const report::RunFile run = report::read_run_file(calibration());
  conditions_ = conditions_of(run);
  for (Point& point : points_) point.predicted = predict(point, conditions_);
  forecast_.calibrate(run.step("store"), run.seconds, points_.back().predicted.seconds);
}

/// One run at the largest size. It proves that the launcher can start so many ranks.
void Study::calibrate() {
  const Point& largest = points_.back();
  if (!is_calibrated()) {
    log_->info(fmt::format("calibrating on {} ranks", largest.ranks));
    constexpr double otherwise = 3600;  // nothing is known of this machine
    const Attempt done =
        try_twice({&largest, of_calibration}, {}, request_.timeout.value_or(otherwise));
    if (done.ended.interrupted) return;
    if (!done.problem.empty()) {
      const std::string message = fmt::format(
          "the calibration run on {} ranks has failed ({}): see '{}'; choose fewer ranks "
          "(--scale.ranks), another launcher (--scale.launcher) or --scale.oversubscribe",
          largest.ranks, done.problem, done.log.string());
      if (done.ended.code == static_cast<int>(ExitCode::usage)) throw UsageError(message);
      throw Error(message);
    }
  }
  take_conditions();
}

/// The input files may not fit into memory, and a file system may keep them there.
void Study::warn_of_cache() const {
  if (!is_calibrated()) return;  // interrupted
  const std::string is = report::read_run_file(calibration()).text("page_cache");
  const std::string wanted = request_.cold ? "cold" : "warm";
  if (is.empty() || is == wanted) return;
  log_->warn(fmt::format(
      "scale.cache is {}, but the run found the input files {}: the study measures that{}", wanted,
      is,
      request_.cold ? "" : "; files larger than the free memory cannot stay in the page cache"));
}

void Study::tell(const Launch& launch, const std::string& what, const std::vector<Launch>& left) {
  double seconds = 0;
  for (const Launch& each : left) seconds += expected(*each.point);
  log_->info(
      fmt::format("[{}/{}] {}, launch {}: {}{}", total_ - left.size(), total_,
                  counted(launch.point->ranks, "rank"), launch.replicate, what,
                  left.empty() ? "" : fmt::format("; about {} left", format_duration(seconds))));
}

/// Launches, and once more if that fails. Returns the last attempt.
Attempt Study::try_twice(const Launch& launch, const Values& conditions, double timeout) {
  const Point& point = *launch.point;
  Attempt done;
  for (std::uint64_t number = 1; number <= 2; ++number) {
    done = attempt(point, launch.replicate, number, result_of(launch), conditions, timeout);
    if (done.ended.interrupted || done.problem.empty()) break;
    log_->warn(fmt::format("{} on {} ranks, attempt {} has failed: {} (see '{}')", name_of(launch),
                           point.ranks, number, done.problem, done.log.string()));
  }
  return done;
}

/// False if the launch has failed twice.
bool Study::launch(const Launch& launch) {
  const double measured =
      order_.options.is_default("measure.repeat") ? order_.options.seconds("measure.max-time") : 0;
  const double timeout = request_.timeout.value_or(10 * (expected(*launch.point) + measured) + 300);
  const Attempt done = try_twice(launch, conditions_, timeout);
  if (done.problem.empty()) {
    forecast_.add(launch.point->ranks, done.ended.seconds, launch.point->predicted.seconds);
  }
  return done.problem.empty() || done.ended.interrupted;
}

/// Finds the calibration run or does it. With --only NAME it must be there: several jobs may each
/// do one launch.
void Study::begin() {
  const bool calibrates = order_.only.empty() || order_.only == calibration_name;
  const std::vector<Launch> wanted = ordered();
  if (wanted.empty() && !calibrates) {
    throw UsageError(fmt::format("--only: the study has no launch {} (--list shows their names)",
                                 excerpt(order_.only)));
  }
  launcher_.check(calibrates ? points_.back().ranks : wanted.front().point->ranks);
  if (!calibrates) {
    if (has_results()) expect_same_study(chosen(order_.options));
    if (!is_calibrated()) {
      throw UsageError(
          fmt::format("--only: the study in '{}' has no calibration run, which comes before {}: "
                      "start --only {}",
                      order_.folder.string(), order_.only, calibration_name));
    }
  }
  open_folder();
  for (const io::InputFile& file : workloads::open(order_.options)->inputs().files) {
    inputs_.push_back(file.path);
  }
  interrupts_.emplace();
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
  std::vector<Launch> left = missing();
  total_ = left.size();
  std::size_t failed = 0;
  while (!left.empty() && interrupts_->wish() == Interrupts::Wish::none) {
    const Launch next = left.front();
    left.erase(left.begin());
    if (!launch(next)) {
      ++failed;
      continue;
    }
    if (interrupts_->wish() == Interrupts::Wish::stop_now) break;
    const report::RunFile run = report::read_run_file(result_of(next));
    tell(next, format_duration(run.seconds), left);
  }
  const std::size_t rest = missing().size() + (is_calibrated() ? 0 : 1);
  if (interrupts_->wish() != Interrupts::Wish::none && rest > 0) {
    log_->info(fmt::format("interrupted with {} left: run the same command again",
                           counted(rest, "launch")));
    return ExitCode::checkpointed;
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
  return Study(order, nullptr).list();
}

ExitCode run_study(const Order& order, Log& log) {
  return Study(order, &log).run();
}

}  // namespace shardstream::scale
