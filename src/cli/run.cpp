#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/dry_run.hpp"
#include "cli/in_session.hpp"
#include "cli/input.hpp"
#include "cli/options_of_others.hpp"
#include "cli/result_path.hpp"
#include "cli/store.hpp"
#include "cli/timeline.hpp"
#include "core/standard_output.hpp"
#include "core/text.hpp"
#include "io/checkpoint.hpp"
#include "io/dataset_file.hpp"
#include "io/origin.hpp"
#include "io/part_file.hpp"
#include "io/result_file.hpp"
#include "io/source.hpp"
#include "launch/options.hpp"
#include "launch/signals.hpp"
#include "runtime/provenance.hpp"
#include "runtime/slow_links.hpp"
#include "workloads/gemm.hpp"
#include "workloads/gram.hpp"
#include "workloads/product.hpp"
#include "workloads/reduce.hpp"

namespace shardstream::cli {
namespace {

namespace fs = std::filesystem;

/// `ini` becomes the INI file that the arguments name, and `dry` the wishes for a dry run, if they
/// do.
Options parse(const Arguments& arguments, const char* const* environment, fs::path& ini,
              std::optional<DryRun>& dry) {
  const OptionTable table = all_options();
  CommandLine line = table.parse_command_line(arguments, dry_run_switches, dry_run_settings);
  dry = dry_run_of(line);
  if (line.words.size() == 2 && line.words[1].ends_with(".ini")) {
    throw UsageError(fmt::format(
        "run takes a workload or a configuration file, not both: leave out {}, since {} names its "
        "workload by itself (workload in the section [run])",
        excerpt(line.words[0]), excerpt(line.words[1])));
  }
  if (line.words.size() != 1) {
    throw UsageError(
        line.words.empty()
            ? std::string("run needs a workload (reduce, gemm or gram) or a configuration file "
                          "(NAME.ini): see shardstream run --help")
            : fmt::format("run takes one workload or configuration file, but {} "
                          "follows {}: check the spelling of the options",
                          excerpt(line.words[1]), excerpt(line.words[0])));
  }
  if (!line.words[0].ends_with(".ini")) {
    if (fs::is_regular_file(line.words[0])) {
      throw UsageError(
          fmt::format("{} is not taken for a configuration file: give it a name that "
                      "ends in .ini",
                      excerpt(line.words[0])));
    }
    line.values["run.workload"] = line.words[0];
  } else {
    ini = line.words[0];
  }
  Options options =
      table.resolve(line, environment, ini.empty() ? std::nullopt : std::optional(ini));
  if (options.text("run.workload").empty()) {
    throw UsageError(fmt::format(
        "{} names no workload: add one to it (workload = reduce, gemm or gram in the section "
        "[run]), or name it on the command line (--run.workload gemm)",
        excerpt(ini.string())));
  }
  refuse_options_of_other_workloads(options);
  return options;
}

/// The result file, and the trace if there is to be one, while the run lasts; on rank 0 alone, but
/// all ranks know what to remove.
class Output {
 public:
  Output(const launch::Session& session, const Options& options,
         std::span<const io::InputFile> inputs, const fs::path& path, const std::string& uuid,
         Log& log)
      : session_(session),
        path_(path),
        uuid_(uuid),
        log_(log),
        journal_path_(io::journal_path_of(path, uuid, session.rank())),
        remove_({io::part_path_of(path, uuid), journal_path_,
                 io::part_path_of(trace_path(path), uuid)}) {
    refuse_result_path(path, inputs);
    const bool traces = options.flag("measure.timeline");
    if (traces) io::protect_inputs(trace_path(path), inputs);
    if (session.rank() != 0) return;
    const io::Overwrite overwrite = io::overwrite_of(options);
    file_.emplace(path, overwrite, uuid, reserved_bytes);
    if (traces) trace_.emplace(trace_path(path), overwrite, uuid, trace_bytes);
  }
  /// What is finished of an unpublished result stays, unless another run has published one.
  ~Output() {
    if (!file_ || published_) return;
    if (keeps_ && !file_->is_overtaken() && io::has_finished_tiles(path_, uuid_)) {
      file_->keep();
      log_.info(what_is_kept());
    } else {
      io::remove_journals(path_, uuid_);
    }
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Null on all ranks but 0.
  io::ResultFile* file() { return file_ ? &*file_ : nullptr; }
  /// Null also without measure.timeline.
  report::TraceFile* trace() { return trace_ ? &*trace_ : nullptr; }

  /// From now on a run that is interrupted or fails leaves what a later run can resume from, and
  /// rank 0 says so. For any thread.
  void keep() {
    const char* const rank = session_.size() > 1 ? "rank 0: " : "";
    remove_.keep({io::part_path_of(path_, uuid_), journal_path_},
                 session_.rank() == 0
                     ? printable(fmt::format("{}interrupted{{}}: {}", rank, what_is_kept())) + '\n'
                     : "");
    keeps_ = true;
  }

  /// Whether a result that has failed its verification leaves its checkpoint: what was wrong is in
  /// no journal, so that the next run can resume from the tiles that were right.
  enum class Failure { none, of_tiles, of_input };

  /// Once all have written: the result gets its name, and the journals go. A result that has failed
  /// its verification is marked, so that the next run replaces it. On rank 0.
  void publish(Failure failure) {
    const bool keeps = failure == Failure::of_tiles && keeps_;
    if (keeps) file_->keep();
    file_->publish(failure == Failure::none ? "complete" : "unverified");
    published_ = true;
    if (!keeps) io::remove_journals(path_, uuid_);
  }

 private:
  std::string what_is_kept() const {
    return fmt::format(
        "the run is not complete, but what it has finished is kept: run the same command with "
        "-o {} to resume",
        path_.string());
  }
  const launch::Session& session_;
  fs::path path_;
  std::string uuid_;
  Log& log_;
  fs::path journal_path_;
  launch::RemoveOnSignal remove_;  // from before the files to after them
  std::optional<io::ResultFile> file_;
  std::optional<report::TraceFile> trace_;
  std::atomic<bool> keeps_ = false;
  bool published_ = false;
};

/// This rank's journal of the run, and what earlier runs have left.
class Resumption {
 public:
  /// Finds what there is to resume from, or removes it if output.resume is never. Collective.
  Resumption(const launch::Session& session, const Options& options, const fs::path& path, Log& log)
      : session_(session), path_(path), log_(log) {
    std::string journals;
    session.collectively([&] {
      if (session.rank() != 0) return;
      if (options.text("output.resume") == "never") {
        earlier_runs_.emplace(path).remove();
      } else {
        find_earlier_runs();
        journals = earlier_runs_->journals();
      }
      for (const std::string& warning : earlier_runs_->warnings()) log_.warn(warning);
    });
    earlier_ = io::parse_checkpoint(path, session.broadcast(journals));
  }

  /// What the workload gets. `matrix` is where C goes, null if it is not stored; it and `output`
  /// must outlive the run. To be called once.
  workloads::Resume begin(Output& output, const std::string& uuid, const io::RangeWriter* matrix) {
    matrix_ = matrix;
    journal_.emplace(path_, uuid, session_.rank(), session_.size(), matrix, log_,
                     [&] { output.keep(); });
    return {&*journal_, earlier_ ? &*earlier_ : nullptr, [this] { take_over(); }};
  }

  /// How many runs one after the other have led to this one, which has resumed from the last; after
  /// begin().
  std::uint64_t restarts() const { return journal_->restarts(); }

  /// Once a result is published: nobody needs what earlier runs have left, nor those whose ranks
  /// have ended since this one began. On rank 0.
  void remove_earlier() {
    earlier_runs_->remove();
    io::EarlierRuns(path_).remove();
    io::remove_stale_parts(path_);
  }

 private:
  /// A journal that cannot be written keeps all that it should have held where it is.
  void take_over() {
    bool written = false;
    session_.collectively([&] {
      if (matrix_ != nullptr) matrix_->sync();
      written = journal_->sync();
    });
    if (session_.max(written ? 0 : 1) > 0) return;
    session_.collectively([&] {
      if (!earlier_runs_) return;
      io::sync_folder_of(path_);
      earlier_runs_->remove();
    });
  }

  /// A run that was killed a moment ago may still be ending.
  void find_earlier_runs() {
    constexpr int patience = 10;  // seconds
    earlier_runs_.emplace(path_);
    for (int i = 0; i < patience && earlier_runs_->contested(); ++i) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      session_.heartbeat().move();
      earlier_runs_.emplace(path_);
    }
    if (!earlier_runs_->contested()) return;
    throw UsageError(fmt::format(
        "another run is writing '{}' and may finish it: wait for its end, choose another "
        "output.file, or pass --output.resume never",
        path_.string()));
  }

  const launch::Session& session_;
  fs::path path_;
  Log& log_;
  const io::RangeWriter* matrix_ = nullptr;
  std::optional<io::EarlierRuns> earlier_runs_;  // on rank 0
  std::optional<io::Checkpoint> earlier_;
  std::optional<io::Journal> journal_;
};

/// The most memory that this process has had in use so far, in bytes.
double peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) * 1024;
  }
  // Elsewhere; on Linux this would count what the process that started this one had in use.
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

void print(const workloads::Outcome& outcome, const fs::path& file) {
  std::string lines;
  for (const auto& metric : outcome.metrics) {
    lines += fmt::format("{}={}{}{}\n", metric.key, printable(metric.value),
                         metric.unit.empty() ? "" : " ", metric.unit);
  }
  print_output(fmt::format("{}file={}\n", lines, printable(file.string())),
               fmt::format("; the result is complete in {}", file.string()));
}

/// The command as a shell would read it again.
std::string command_line(const Arguments& arguments) {
  std::string line = "shardstream run";
  for (const std::string& word : arguments) {
    const bool plain =
        !word.empty() && word.find_first_of(" \t\n'\"\\$&|;<>()*?[]#~`!") == word.npos;
    std::string quoted = word;
    for (auto at = quoted.find('\''); at != quoted.npos; at = quoted.find('\'', at + 4)) {
      quoted.replace(at, 1, "'\\''");
    }
    line += plain ? fmt::format(" {}", word) : fmt::format(" '{}'", quoted);
  }
  return line;
}

/// What has changed of the inputs since they were opened, as the first rank to see it says; empty
/// if nothing has. Collective.
std::string change_of_inputs(const launch::Session& session, const io::Origin& inputs) {
  std::string mine;
  for (const io::InputFile& file : inputs.files) {
    if (mine.empty()) mine = io::change_of(file);
  }
  for (const std::string& change : session.gather(mine)) {
    if (!change.empty()) return change;
  }
  return {};
}

/// The result is published: a trace that cannot be written does not undo it.
void publish_trace(report::TraceFile& trace, const Record& record, Log& log,
                   workloads::Outcome& outcome) {
  try {
    write_trace(trace, *record.timeline, record.rank_phase, record.processes);
    trace.publish();
  } catch (const Error& error) {
    log.warn(fmt::format("the result is complete, but its timeline is not: {}", error.what()));
    return;
  }
  outcome.metrics.push_back({"timeline", trace.path().string()});
  outcome.metrics.push_back(
      {"alignment_error", fmt::format("{:.1f}", record.timeline->alignment_error * 1e6), "us"});
}

/// How often this work was begun again: as checkpoints count the runs before (`resumed`), or as the
/// batch system says of the job, of which some may have left nothing to go on from.
std::int64_t restart_count(std::uint64_t resumed) {
  const char* const count = std::getenv("SLURM_RESTART_COUNT");
  return std::max(static_cast<std::int64_t>(resumed),
                  count != nullptr ? std::int64_t{std::atoll(count)} : 0);
}

/// What all GPUs did in the run; rank 0 says what was not right with them. Collective.
measure::RunTelemetry gather_telemetry(const runtime::Runtime& runtime,
                                       const workloads::Outcome& outcome) {
  const std::string& pci = runtime.device->info().pci;
  auto telemetry = measure::gather_telemetry(
      runtime.session, *runtime.telemetry, outcome.samples.repetitions,
      pci.empty() ? "" : fmt::format("{} {}", runtime.session.host(), pci));
  if (runtime.session.rank() == 0) {
    for (const auto& warning : telemetry.warnings) runtime.log.warn(warning);
  }
  return telemetry;
}

/// A workload with its input opened, as run.workload names it.
struct Work {
  /// Where `resumable`, with all that it takes to go on from a checkpoint; else with null.
  std::function<workloads::Outcome(runtime::Runtime&, const io::RangeWriter*,
                                   const workloads::Resume*)>
      run;
  io::Origin inputs;
  bool resumable = false;
  /// The matrix that the run writes by all ranks; none where there is none.
  struct Matrix {
    std::string name;
    ElementType type;
    std::uint64_t rows, columns;
  };
  std::optional<Matrix> matrix = {};
};

/// Collective.
Work open_workload(const launch::Session& session, const Options& options) {
  const std::string& name = options.text("run.workload");
  if (name == "gemm" || name == "gram") {
    auto operands =
        std::make_shared<const workloads::GemmOperands>(workloads::open_product(session, [&] {
          return name == "gemm" ? workloads::open_gemm(options) : workloads::open_gram(options);
        }));
    Work work{.run =
                  [operands, name](runtime::Runtime& runtime, const io::RangeWriter* to,
                                   const workloads::Resume* resume) {
                    return workloads::run_product(runtime, *operands, name, to, *resume);
                  },
              .inputs = workloads::inputs_of(*operands),
              .resumable = true};
    if (options.flag("output.store")) {
      work.matrix = {"C", gemm::accumulator_type(operands->precision), operands->m, operands->n};
    }
    return work;
  }
  const std::shared_ptr<io::Source> source = open_input(session, options);
  return {.run = [source](runtime::Runtime& runtime, const io::RangeWriter*,
                          const workloads::Resume*) { return workloads::reduce(runtime, *source); },
          .inputs = source->origin()};
}

/// Lays the matrix out in the result file and opens it on every rank. Collective.
std::optional<io::RangeWriter> open_matrix(const launch::Session& session, const Work& work,
                                           io::ResultFile* file) {
  if (!work.matrix) return std::nullopt;
  const auto& [name, type, rows, columns] = *work.matrix;
  std::string place;  // of the file's bytes, and the file
  session.collectively([&] {
    if (file == nullptr) return;
    place = fmt::format("{} {}", file->dataset("/results", name, type, rows, columns),
                        file->part_path().string());
  });
  place = session.broadcast(place);
  const auto space = place.find(' ');
  std::optional<io::RangeWriter> writer;
  session.collectively([&] {
    writer.emplace(place.substr(space + 1), std::stoull(place.substr(0, space)), type, columns);
  });
  return writer;
}

ExitCode run_workload(const launch::Session& session, const Options& options, Log& log,
                      const Arguments& arguments, const fs::path& ini) {
  session.collectively([&] { launch::check_expected_ranks(session, options); });
  const std::string uuid = runtime::make_run_uuid(session);
  const Work work = open_workload(session, options);
  std::vector<io::InputFile> protected_files = work.inputs.files;
  if (session.rank() == 0) {
    for (const std::string& warning : work.inputs.warnings) log.warn(warning);
    if (!ini.empty()) protected_files.push_back(io::look_at(ini));
  }
  std::optional<Output> output;
  // Names by the time differ between ranks.
  const fs::path path =
      session.broadcast(result_path(options, static_cast<std::uint64_t>(session.size())).string());
  session.collectively([&] { output.emplace(session, options, protected_files, path, uuid, log); });
  std::optional<Resumption> resumption;
  if (work.resumable) resumption.emplace(session, options, path, log);
  const std::optional<io::RangeWriter> matrix = open_matrix(session, work, output->file());
  const io::RangeWriter* const to = matrix ? &*matrix : nullptr;
  std::optional<workloads::Resume> resume;
  if (resumption) resume = resumption->begin(*output, uuid, to);

  runtime::Runtime runtime(session, options, log);
  runtime.telemetry->start();
  workloads::Outcome outcome = work.run(runtime, to, resume ? &*resume : nullptr);
  runtime.telemetry->stop();
  const std::string change = change_of_inputs(session, work.inputs);
  if (!change.empty()) workloads::invalidate(outcome, change);
  runtime::warn_of_slow_links(runtime, outcome.ceilings);
  if (session.rank() == 0) {
    measure::warn_if_unconverged(outcome.samples, measure::sampling(options), log);
  }
  const auto telemetry = gather_telemetry(runtime, outcome);
  describe_rates(outcome, telemetry);
  outcome.metrics.push_back({"backend", runtime.device->info().backend});
  outcome.metrics.push_back(
      {"host_memory_peak", fmt::format("{:.0f}", session.max(peak_memory())), "B"});
  session.heartbeat().enter("store");
  if (matrix) session.collectively([&] { matrix->sync(); });
  const Record record = gather(runtime, outcome, telemetry);
  const bool failed = outcome.verified == workloads::Verification::failed;
  const auto failure = !failed          ? Output::Failure::none
                       : change.empty() ? Output::Failure::of_tiles
                                        : Output::Failure::of_input;
  session.collectively([&] {
    io::ResultFile* file = output->file();
    if (file == nullptr) return;
    file->attribute("/", "argv", command_line(arguments));
    file->attribute("/", "restart_count", restart_count(resumption ? resumption->restarts() : 0));
    store(*file, runtime, record, outcome, work.inputs);
    output->publish(failure);
    if (resumption && !failed) resumption->remove_earlier();
    if (output->trace() != nullptr && !failed)
      publish_trace(*output->trace(), record, log, outcome);
    print(outcome, file->path());
  });
  session.collectively([&] {
    if (!failed) return;
    throw Unverified(
        fmt::format("the result in '{}' has not passed its verification ({}): run the same command "
                    "again, which replaces it{}",
                    path.string(), outcome.verdict,
                    change.empty() ? "; if it fails again, check the data and the hardware"
                                   : ", when nothing writes to its inputs any more"));
  });
  return ExitCode::done;
}

}  // namespace

int run(const Arguments& arguments, const char* const* environment) {
  fs::path ini;
  std::optional<DryRun> dry;
  if (std::ranges::find(arguments, "--dry-run") != arguments.end()) {
    // The others of a launcher's processes would say the same, errors too.
    if (!launch::first_of_launcher()) return static_cast<int>(ExitCode::done);
    const Options options = parse(arguments, environment, ini, dry);
    Log log;
    for (const std::string& warning : options.warnings()) log.warn(warning);
    if (dry) print_output(dry_run(options, *dry, log));
    return static_cast<int>(ExitCode::done);
  }
  return in_session([&] { return parse(arguments, environment, ini, dry); },
                    [&](const launch::Session& session, const Options& options, Log& log) {
                      return run_workload(session, options, log, arguments, ini);
                    });
}

}  // namespace shardstream::cli
