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
#include "report/run_file.hpp"
#include "scale/attempts.hpp"
#include "scale/cache.hpp"
#include "scale/launcher.hpp"
#include "scale/options.hpp"
#include "scale/process.hpp"
#include "study/labels.hpp"
#include "workloads/registry.hpp"

namespace shardstream::scale {
namespace {

namespace fs = std::filesystem;
using Values = std::vector<std::pair<std::string, std::string>>;

/// One number of ranks.
struct Point {
  std::string name;  // "p4"
  std::uint64_t ranks;
  workloads::Scaled scaled;  // what differs from the smallest point, for weak scaling
  double predicted = 0;      // seconds of a repetition
};

/// One launch to do.
struct Launch {
  const Point* point;
  std::uint64_t replicate;  // from 1
};

/// The options of a study that are not the default, in the order of their keys.
Values chosen(const Options& options) {
  Values values;
  for (const auto& [key, value] : options.all()) {
    if (!options.is_default(key) && key != "output.file") values.emplace_back(key, value.text);
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

/// "KEY = VALUE" of each line of study.ini.
std::map<std::string, std::string> read_ini(const fs::path& path) {
  std::ifstream file(path);
  std::map<std::string, std::string> values;
  std::string section;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('[')) section = line.substr(1, line.find(']') - 1);
    const auto equals = line.find(" = ");
    if (line.starts_with('#') || equals == line.npos) continue;
    values[section + '.' + line.substr(0, equals)] = line.substr(equals + 3);
  }
  return values;
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
  double predict(const Point& point, const Values& conditions) const;
  std::uint64_t first_gpu(const Point& point, std::uint64_t replicate) const;
  std::vector<std::string> words(const Point& point, std::uint64_t replicate,
                                 const fs::path& result, const Values& conditions) const;
  std::vector<Launch> ordered() const;
  std::vector<Launch> missing() const;
  std::string listed(const Launch& launch) const;
  // The work.
  void begin();
  void open_folder();
  void expect_same_study(const fs::path& ini, const Values& now);
  void calibrate();
  bool is_calibrated() const;
  void take_conditions();
  void warn_of_cache() const;
  Values conditions_of(const report::RunFile& calibration) const;
  bool launch(const Launch& launch);
  Attempt attempt(const Point& point, std::uint64_t replicate, std::uint64_t number,
                  const fs::path& result, const Values& conditions, double timeout);
  std::string problem_of(const Attempt& attempt, const Point& point) const;
  std::string end_of_log(const fs::path& log) const;
  double expected(const Point& point) const;
  void tell(const Launch& launch, const std::string& what, const std::vector<Launch>& left);

  static std::string name_of(const Launch& launch) {
    if (launch.replicate == of_calibration) return std::string(calibration_name);
    return fmt::format("{}-r{}", launch.point->name, launch.replicate);
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
  double calibration_seconds_ = 0;
  std::map<std::uint64_t, std::vector<double>> took_;  // seconds of a launch, by ranks
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

/// Seconds of a repetition, as the dry run of the point says. Checks the run's options and inputs.
double Study::predict(const Point& point, const Values& conditions) const {
  std::vector<std::string> arguments =
      words(point, 1, order_.folder / (point.name + "-r1.h5"), conditions);
  arguments.erase(arguments.begin(), arguments.begin() + 2);
  arguments[0] = "--run.workload=" + arguments[0];
  const char* const nothing[] = {nullptr};
  const Options options = order_.run_table.resolve(order_.run_table.parse_command_line(arguments),
                                                   nothing, std::nullopt);
  measure::Machine machine(
      options, {.ranks = point.ranks, .ranks_on_host = launcher_.ranks_on_node(point.ranks)});
  return workloads::open(options)->predict(machine).seconds;
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
  const fs::path result = launch.replicate == of_calibration ? calibration() : result_of(launch);
  std::vector<std::string> line = launcher_.words(point.ranks);
  const auto run = words(point, launch.replicate, result, conditions_);
  line.insert(line.end(), run.begin(), run.end());
  const std::string work =
      request_.weak
          ? fmt::format(", {:.4g} times the work of the smallest size", point.scaled.factor)
          : "";
  return fmt::format("# {}: {} rank{}, {} a repetition{}\n{}\n", name_of(launch), point.ranks,
                     point.ranks == 1 ? "" : "s", format_duration(point.predicted), work,
                     shell_line(line));
}

std::string Study::list() {
  const fs::path ini = order_.folder / "study.ini";
  if (fs::exists(ini)) expect_same_study(ini, chosen(order_.options));
  std::string text = fmt::format("# folder: {}\n", printable(order_.folder.string()));
  if (is_calibrated()) {
    take_conditions();
  } else {
    text += "# After the calibration run --list shows the options for equal conditions.\n";
    text += listed({&points_.back(), of_calibration});
  }
  double total = 0;
  const std::vector<Launch> launches = missing();
  for (const Launch& launch : launches) {
    text += listed(launch);
    total += launch.point->predicted;
  }
  return text + fmt::format("# {} launches, {} in all for one repetition of each\n",
                            launches.size(), format_duration(total));
}

/// Takes the name of the study in the folder. Throws UsageError with the first difference unless
/// its options are those of `now`.
void Study::expect_same_study(const fs::path& ini, const Values& now) {
  std::map<std::string, std::string> then = read_ini(ini);
  name_ = then["study.name"];
  then.erase("study.name");
  std::map<std::string, std::string> current(now.begin(), now.end());
  const auto text = [](const std::map<std::string, std::string>& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? std::string("not given") : excerpt(found->second);
  };
  for (const auto* side : {&then, &current}) {
    for (const auto& [key, value] : *side) {
      if (text(then, key) == text(current, key)) continue;
      throw UsageError(fmt::format(
          "'{}' holds another study: {} was {} and is {} now: name another folder with -o, or give "
          "the options of that study",
          order_.folder.string(), key, text(then, key), text(current, key)));
    }
  }
}

void Study::open_folder() {
  std::error_code error;
  fs::create_directories(order_.folder / "logs", error);
  if (error) {
    throw UsageError(fmt::format("output.file: cannot make the folder '{}': {}",
                                 order_.folder.string(), error.message()));
  }
  const fs::path ini = order_.folder / "study.ini";
  const Values now = chosen(order_.options);
  if (fs::exists(ini)) {
    expect_same_study(ini, now);
    return;
  }
  if (std::distance(fs::directory_iterator(order_.folder), fs::directory_iterator()) > 1) {
    throw UsageError(
        fmt::format("output.file: '{}' is a folder with other files and no study: name a new one",
                    order_.folder.string()));
  }
  std::ofstream file(ini);
  file << ini_of(now, name_);
  if (!file.flush()) {
    throw UsageError(fmt::format("output.file: cannot write '{}'", ini.string()));
  }
}

/// The last lines of a log that say something.
std::string Study::end_of_log(const fs::path& log) const {
  std::ifstream file(log);
  std::string error, last;
  for (std::string line; std::getline(file, line);) {
    if (line.find("error: ") != line.npos) error = line.substr(line.find("error: ") + 7);
    if (!trim(line).empty() && line.find_first_not_of("-= ") != line.npos) last = line;
  }
  const std::string& said = error.empty() ? last : error;
  constexpr std::size_t most = 600;
  return printable(said.size() > most ? said.substr(0, most) + "..." : said);
}

/// Why the launch does not count; empty: it does. An exit code of 0 alone proves nothing, since
/// launchers differ in what they return.
std::string Study::problem_of(const Attempt& attempt, const Point& point) const {
  if (attempt.ended.timed_out) {
    return fmt::format("it did not end within {}: see --scale.timeout",
                       format_duration(attempt.ended.seconds));
  }
  if (attempt.ended.code != 0) {
    const std::string said = end_of_log(attempt.log);
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
  if (calibration_seconds_ == 0) calibration_seconds_ = run.step("store");
  conditions_ = conditions_of(run);
  for (Point& point : points_) point.predicted = predict(point, conditions_);
}

/// One run at the largest size. It proves that the launcher can start so many ranks.
void Study::calibrate() {
  const Point& largest = points_.back();
  if (!is_calibrated()) {
    log_->info(fmt::format("calibrating on {} ranks", largest.ranks));
    constexpr double otherwise = 3600;  // nothing is known of this machine
    const Attempt done = attempt(largest, of_calibration, 1, calibration(), {},
                                 request_.timeout.value_or(otherwise));
    if (done.ended.interrupted) return;
    if (!done.problem.empty()) {
      const std::string message = fmt::format(
          "the first launch, on {} ranks, has failed ({}): see '{}'; choose fewer ranks "
          "(--scale.ranks), another launcher (--scale.launcher) or --scale.oversubscribe",
          largest.ranks, done.problem, done.log.string());
      if (done.ended.code == static_cast<int>(ExitCode::usage)) throw UsageError(message);
      throw Error(message);
    }
    calibration_seconds_ = done.ended.seconds;
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

/// Seconds that a launch of this point takes: as its others took, or as long as the calibration
/// with a repetition as predicted.
double Study::expected(const Point& point) const {
  const auto found = took_.find(point.ranks);
  if (found != took_.end()) {
    double sum = 0;
    for (const double seconds : found->second) sum += seconds;
    return sum / static_cast<double>(found->second.size());
  }
  const double slower =
      points_.back().predicted > 0 ? point.predicted / points_.back().predicted : 1;
  return calibration_seconds_ * std::max(1.0, slower);
}

void Study::tell(const Launch& launch, const std::string& what, const std::vector<Launch>& left) {
  double seconds = 0;
  for (const Launch& each : left) seconds += expected(*each.point);
  log_->info(
      fmt::format("[{}/{}] {} rank{}, launch {}: {}{}", total_ - left.size(), total_,
                  launch.point->ranks, launch.point->ranks == 1 ? "" : "s", launch.replicate, what,
                  left.empty() ? "" : fmt::format("; about {} left", format_duration(seconds))));
}

/// Tried once more if it fails. False if it has failed twice.
bool Study::launch(const Launch& launch) {
  const double measured =
      order_.options.is_default("measure.repeat") ? order_.options.seconds("measure.max-time") : 0;
  const double timeout = request_.timeout.value_or(10 * (expected(*launch.point) + measured) + 300);
  for (std::uint64_t number = 1; number <= 2; ++number) {
    const Attempt done =
        attempt(*launch.point, launch.replicate, number, result_of(launch), conditions_, timeout);
    if (done.ended.interrupted) return true;
    if (done.problem.empty()) {
      took_[launch.point->ranks].push_back(done.ended.seconds);
      return true;
    }
    log_->warn(fmt::format("{} ranks, launch {}, attempt {} has failed: {} (see '{}')",
                           launch.point->ranks, launch.replicate, number, done.problem,
                           done.log.string()));
  }
  return false;
}

/// Proves the calibration run, or does it unless one other launch alone is wanted: several jobs may
/// each do one of them.
void Study::begin() {
  const bool calibrates = order_.only.empty() || order_.only == calibration_name;
  const std::vector<Launch> wanted = ordered();
  if (wanted.empty() && !calibrates) {
    throw UsageError(fmt::format("--only: the study has no launch {} (--list shows their names)",
                                 excerpt(order_.only)));
  }
  launcher_.check(calibrates ? points_.back().ranks : wanted.front().point->ranks);
  open_folder();
  for (const io::InputFile& file : workloads::open(order_.options)->inputs().files) {
    inputs_.push_back(file.path);
  }
  interrupts_.emplace();
  attempts_.emplace(order_.folder);
  if (calibrates) {
    calibrate();
    warn_of_cache();
  } else if (is_calibrated()) {
    take_conditions();
  } else {
    throw UsageError(fmt::format(
        "--only: the study in '{}' has no calibration run, which comes before {}: start --only {}",
        order_.folder.string(), order_.only, calibration_name));
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
    log_->info(fmt::format("interrupted with {} launches left: run the same command again", rest));
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
