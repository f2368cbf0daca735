#include "execution/run_workload.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <vector>

#include "core/failure.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "execution/output.hpp"
#include "execution/record.hpp"
#include "execution/resumption.hpp"
#include "execution/timeline_output.hpp"
#include "io/description/origin.hpp"
#include "io/output/dataset_file.hpp"
#include "ranks/session.hpp"
#include "runtime/provenance.hpp"
#include "runtime/slow_links.hpp"
#include "workloads/registry.hpp"

namespace shardstream::execution {
namespace {

namespace fs = std::filesystem;

/// The peak memory usage of this process so far, in bytes.
double peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) * 1024;
  }
  // For other systems. On Linux, this would include memory of the parent process.
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

/// Describes a change of the inputs since they were opened, as found by the lowest rank; empty if
/// nothing has changed. Collective.
std::string change_of_inputs(const ranks::Session& session, const io::Origin& inputs) {
  std::string mine;
  for (const io::InputFile& file : inputs.files) {
    if (mine.empty()) mine = io::change_of(file);
  }
  for (const std::string& change : session.gather(mine)) {
    if (!change.empty()) return change;
  }
  return {};
}

/// Publishes the trace after the result. If the trace cannot be written, the result stays valid.
void publish_trace(report::TraceFile& trace, const Record& record, const std::string& study,
                   Log& log, workloads::Outcome& outcome) {
  try {
    write_trace(trace, *record.timeline, record.rank_phase, record.processes, study);
    trace.publish();
  } catch (const Error& error) {
    log.warn(fmt::format("the result is complete, but its timeline is not: {}", error.what()));
    return;
  }
  outcome.metrics.push_back({"timeline", trace.path().string()});
  outcome.metrics.push_back(
      {"alignment_error", record.timeline->alignment_error * 1e6, "us", "{:.1f}"});
}

/// The number of restarts of this work: the number of earlier runs from the checkpoints
/// (`resumed`), or the number of the batch system, which also counts runs without a checkpoint.
std::int64_t restart_count(std::uint64_t resumed) {
  const char* const count = std::getenv("SLURM_RESTART_COUNT");
  return std::max(static_cast<std::int64_t>(resumed),
                  count != nullptr ? std::int64_t{std::atoll(count)} : 0);
}

/// Gathers the telemetry of all GPUs. Rank 0 logs the warnings. Collective.
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

/// "a.h5:/A, b.h5:/B"
std::string names_of_inputs(const workloads::Outcome& outcome) {
  std::string names;
  for (const auto& [group, name, value] : outcome.input) {
    if (name != "name") continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", std::get<std::string>(value));
  }
  return names;
}

/// Allocates the arrays of the task in the result file and opens them on every rank. Collective.
std::vector<io::RangeWriter> open_outputs(const ranks::Session& session,
                                          const workloads::Task& task, io::ResultFile* file) {
  std::vector<io::RangeWriter> writers;
  for (const auto& [name, type, shape, labelled_bytes] : task.outputs()) {
    std::string place;  // offset of the array, and the path of the file
    session.collectively([&] {
      if (file == nullptr) return;
      const std::uint64_t offset = file->dataset("/results", name, type, shape, labelled_bytes);
      place = fmt::format("{} {}", offset, file->part_path().string());
    });
    place = session.broadcast(place);
    const auto space = place.find(' ');
    session.collectively([&] {
      writers.emplace_back(place.substr(space + 1), std::stoull(place.substr(0, space)), type,
                           shape.empty() ? 1 : shape.back());
    });
  }
  return writers;
}

/// The files that the result must not replace.
std::vector<io::InputFile> protected_files(const io::Origin& inputs, const Options& options,
                                           const Invocation& invocation) {
  std::vector<io::InputFile> files = inputs.files;
  for (const fs::path& file : {invocation.ini, fs::path(options.text("measure.rates"))}) {
    if (fs::exists(file)) files.push_back(io::state_of(file));
  }
  return files;
}

/// Adds the metrics that are common to all workloads. Collective.
void add_common_metrics(const runtime::Runtime& runtime, const measure::RunTelemetry& telemetry,
                        const io::Origin& inputs, workloads::Outcome& outcome) {
  describe_rates(outcome, telemetry, allocation_time(runtime));
  if (!inputs.beyond.empty()) {
    outcome.metrics.insert(outcome.metrics.begin(),
                           {"selection_beyond", join(inputs.beyond, ", ")});
  }
  if (!inputs.applied.empty()) {
    outcome.metrics.insert(outcome.metrics.begin(), {"applied", join(inputs.applied, ", ")});
  }
  if (!inputs.not_applied.empty()) {
    outcome.metrics.insert(outcome.metrics.begin(), {"not_applied", io::not_applied_text(inputs)});
  }
  if (const std::string input = names_of_inputs(outcome); !input.empty()) {
    outcome.metrics.insert(outcome.metrics.begin(), {"input", input});
  }
  outcome.metrics.push_back({"ranks", std::int64_t{runtime.session.size()}});
  outcome.metrics.push_back({"backend", runtime.device->info().backend});
  outcome.metrics.push_back(
      {"host_memory_peak", static_cast<std::int64_t>(runtime.session.max(peak_memory())), "B"});
}

[[noreturn]] void fail_verification(const fs::path& path, const std::string& verdict,
                                    bool input_changed) {
  throw Unverified(
      fmt::format("the result in '{}' has not passed its verification ({}): run the same command "
                  "again, which replaces it{}",
                  path.string(), verdict,
                  input_changed ? ", after all writers of its inputs have ended"
                                : "; if it fails again, check the data and the hardware"));
}

/// The path of the result. It comes from rank 0, since a name with the time differs between ranks.
/// Collective.
fs::path common_result_path(const ranks::Session& session, const Options& options) {
  return session.broadcast(
      result_path(options, static_cast<std::uint64_t>(session.size())).string());
}

/// Logs warnings about slow links, an unconverged time and an incomplete verification. Collective.
void warn_of_outcome(const runtime::Runtime& runtime, const workloads::Outcome& outcome) {
  runtime::warn_of_slow_links(runtime, outcome.ceilings);
  if (runtime.session.rank() != 0) return;
  measure::warn_if_unconverged(outcome.samples, measure::sampling(runtime.options), runtime.log);
  using enum workloads::Verification;
  if (outcome.verified == partly || outcome.verified == unchecked) {
    runtime.log.warn(outcome.verdict);
  }
}

/// Runs the task. If the command or its data turn out to be wrong, the finished part is of no use.
/// Collective.
workloads::Outcome run_task(workloads::Task& task, runtime::Runtime& runtime,
                            const workloads::RunFiles& files, Output& output) {
  try {
    return task.run(runtime, files);
  } catch (const std::exception& error) {
    if (code_of(error) == ExitCode::usage) output.discard();
    throw;
  }
}

/// The files of a run. Only rank 0 has them.
struct Files {
  Output& output;
  Resumption* resumption;  ///< null if the task cannot be resumed
};

/// Stores and publishes the result and then the trace, and prints the metrics. Collective.
void publish(const runtime::Runtime& runtime, const Files& files, const Invocation& invocation,
             const io::Origin& inputs, const Record& record, Output::Failure failure,
             workloads::Outcome& outcome) {
  Output& output = files.output;
  Resumption* const resumption = files.resumption;
  runtime.session.collectively([&] {
    io::ResultFile* file = output.file();
    if (file == nullptr) return;
    file->attribute("/", "argv", invocation.command_line);
    file->attribute("/", "restart_count",
                    restart_count(resumption != nullptr ? resumption->restarts() : 0));
    store(*file, runtime, record, outcome, inputs);
    output.publish(failure);
    const bool failed = failure != Output::Failure::none;
    if (resumption != nullptr && !failed) resumption->remove_earlier();
    if (output.trace() != nullptr && !failed) {
      publish_trace(*output.trace(), record, runtime.options.text("study.name"), runtime.log,
                    outcome);
    }
    const std::string path = file->path().string();
    outcome.metrics.push_back({"file", path});
    print_metrics(outcome.metrics, invocation.printing,
                  fmt::format("; the result is complete in {}", path));
  });
}

}  // namespace

void run_workload(const ranks::Session& session, const Options& options, Log& log,
                  const Invocation& invocation) {
  session.collectively([&] { ranks::check_expected_ranks(session, options); });
  const std::string uuid = runtime::make_run_uuid(session);
  const std::unique_ptr<workloads::Task> task = workloads::open(session, options);
  const io::Origin inputs = task->inputs();
  if (session.rank() == 0) {
    for (const std::string& note : inputs.notes) log.info(note);
    for (const std::string& warning : inputs.warnings) log.warn(warning);
  }
  std::optional<Output> output;
  const fs::path path = common_result_path(session, options);
  if (const std::string note = note_on_name(path); session.rank() == 0 && !note.empty()) {
    log.info(note);
  }
  session.collectively([&] {
    const auto files =
        session.rank() == 0 ? protected_files(inputs, options, invocation) : inputs.files;
    output.emplace(session, options, files, path, uuid, log);
  });
  std::optional<Resumption> resumption;
  if (task->resumable()) resumption.emplace(session, options, path, log);
  const std::vector<io::RangeWriter> outputs = open_outputs(session, *task, output->file());
  std::optional<workloads::Resume> resume;
  if (resumption) resume = resumption->begin(*output, uuid, outputs);

  runtime::Runtime runtime(session, options, log);
  runtime.telemetry->start();
  workloads::Outcome outcome =
      run_task(*task, runtime, {outputs, resume ? &*resume : nullptr}, *output);
  runtime.telemetry->stop();
  const std::string change = change_of_inputs(session, inputs);
  outcome.add_validated();
  if (!change.empty()) outcome.invalidate(change);
  warn_of_outcome(runtime, outcome);
  const auto telemetry = gather_telemetry(runtime, outcome);
  add_common_metrics(runtime, telemetry, inputs, outcome);
  session.heartbeat().enter("store");
  session.collectively([&] {
    for (const io::RangeWriter& each : outputs) each.sync();
  });
  const Record record = gather(runtime, outcome, telemetry);
  const bool failed = outcome.verified == workloads::Verification::failed;
  const auto failure = !failed          ? Output::Failure::none
                       : change.empty() ? Output::Failure::of_tiles
                                        : Output::Failure::of_input;
  publish(runtime, {*output, resumption ? &*resumption : nullptr}, invocation, inputs, record,
          failure, outcome);
  session.collectively([&] {
    if (failed) fail_verification(path, outcome.verdict, !change.empty());
  });
  runtime.communicator->leave();  // the process is about to end
}

}  // namespace shardstream::execution
