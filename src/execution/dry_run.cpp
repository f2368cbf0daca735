#include "execution/dry_run.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <vector>

#include "core/table.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "execution/output.hpp"
#include "io/output/checkpoint.hpp"
#include "io/output/part_file.hpp"
#include "measure/sample.hpp"
#include "workloads/registry.hpp"

namespace shardstream::execution {
namespace {

namespace fs = std::filesystem;
using Checkpoints = workloads::Prediction::Checkpoints;

using Outputs = std::vector<workloads::OutputArray>;

std::uint64_t bytes_of(const Outputs& outputs) {
  std::uint64_t bytes = 0;
  for (const workloads::OutputArray& each : outputs) bytes += each.bytes();
  return bytes;
}

/// "C", or "C and N".
std::string names_of(const Outputs& outputs) {
  return join(outputs, " and ", [](const auto& each) { return each.name; });
}

/// Describes when a run that does not repeat writes checkpoints, and their size.
std::string checkpoint(const fs::path& result, const Outputs& outputs,
                       const Checkpoints& checkpoints) {
  if (checkpoints.units == 1) {
    return fmt::format(
        "none before the end, since {} is a single {}: a smaller --pipeline.gpu-memory makes more",
        outputs.empty() ? "the result" : names_of(outputs), checkpoints.unit);
  }
  return fmt::format(
      "after each of {} {}s, in '{}'{} and '{}', one journal per rank, about {} in "
      "total",
      checkpoints.units, checkpoints.unit, io::part_path_of(result, "UUID").string(),
      outputs.empty() ? " (the unfinished result)"
                      : fmt::format(" with {} ({} from the start)", names_of(outputs),
                                    format_size(bytes_of(outputs))),
      io::part_path_of(result, "UUID.RANK").replace_extension("checkpoint").string(),
      format_size(checkpoints.journal_bytes));
}

/// Describes the checkpoint of interrupted runs. Empty if there is none and this run `writes` none
/// either. Throws UsageError if it belongs to another computation.
std::string resuming(const Options& options, const fs::path& result, const Checkpoints& checkpoints,
                     bool writes, Log& log) {
  const io::FoundCheckpoint found = io::find_checkpoint(result);
  for (const std::string& warning : found.warnings) log.warn(warning);
  if (found.contested) {
    return fmt::format("another run is writing '{}' and may finish it", result.string());
  }
  if (!found.checkpoint) {
    if (!writes) return {};
    const bool named = options.text("output.file").find("{jobid}") == std::string::npos;
    return fmt::format("there is no checkpoint for '{}'{}", result.string(),
                       named ? ""
                             : "; since {jobid} in output.file changes, a later run does not find "
                               "one either: name the output with -o");
  }
  const std::string left =
      fmt::format("{} finished tiles of an interrupted run", found.checkpoint->pieces.size());
  if (options.text("output.resume") == "never") {
    return fmt::format("{} are removed (output.resume is never)", left);
  }
  if (!measure::sampling(options).is_single()) {
    return fmt::format("{} are not used, since a run that repeats starts over", left);
  }
  return fmt::format(
      "{}; this needs the same device and library, and disk space for C twice until it is done",
      checkpoints.kept(*found.checkpoint));
}

/// The lines on checkpoints and on resuming: none if the run does neither.
std::vector<std::string> of_checkpoints(const Options& options, const fs::path& result,
                                        const Outputs& outputs, const Checkpoints& checkpoints,
                                        Log& log) {
  const bool repeats = !measure::sampling(options).is_single();  // and so starts over
  std::vector<std::string> lines;
  if (!repeats) lines.push_back("checkpoint: " + checkpoint(result, outputs, checkpoints));
  const bool writes = !repeats && checkpoints.units > 1;
  const std::string found = resuming(options, result, checkpoints, writes, log);
  if (!found.empty()) lines.push_back("resuming: " + found);
  return lines;
}

std::string in_full(const DryRun& run) {
  std::string text =
      fmt::format("dry run of {} on {}, {} per host: nothing is computed or written\n",
                  run.workload, counted(run.ranks, "rank"), run.ranks_on_host);
  for (const std::string& line : run.lines) text += printable(line) + '\n';  // for names of files
  return text;
}

}  // namespace

DryRun dry_run(const Options& options, const measure::PlannedRanks& planned, Log& log) {
  const std::string& workload = options.text("run.workload");
  measure::Machine machine(options, planned);
  const std::unique_ptr<workloads::Task> task = workloads::open(options);
  const io::Origin inputs = task->inputs();
  for (const std::string& note : inputs.notes) log.info(note);
  for (const std::string& warning : inputs.warnings) log.warn(warning);
  const Outputs outputs = task->outputs();
  check_output(options, planned.ranks, bytes_of(outputs), inputs.files);
  const std::string note = note_on_name(result_path(options, planned.ranks));
  if (!note.empty()) log.info(note);
  const workloads::Prediction prediction = task->predict(machine);
  for (const std::string& warning : prediction.warnings) log.warn(warning);

  DryRun run{.workload = workload,
             .ranks = planned.ranks,
             .ranks_on_host = machine.ranks_on_host(),
             .seconds = prediction.seconds,
             .is_minimum = prediction.is_minimum,
             .faster = prediction.faster,
             .lines = {}};
  std::vector<std::string> answer = prediction.answer;
  if (run.faster) answer.push_back("faster: " + words_of(*run.faster));
  for (const auto& part : {answer, machine.lines(), prediction.plan}) {
    run.lines.insert(run.lines.end(), part.begin(), part.end());
  }
  if (!outputs.empty()) {
    run.lines.push_back(fmt::format("result: {} {} {} of disk", names_of(outputs),
                                    outputs.size() == 1 ? "takes" : "take",
                                    format_size(bytes_of(outputs))));
  }
  if (prediction.checkpoints) {
    const auto found = of_checkpoints(options, result_path(options, planned.ranks), outputs,
                                      *prediction.checkpoints, log);
    run.lines.insert(run.lines.end(), found.begin(), found.end());
  }
  machine.warn(log);
  return run;
}

std::string to_output(std::span<const DryRun> runs, Printing printing) {
  if (printing == Printing::text && runs.size() == 1) return in_full(runs.front());
  Table predictions("predictions", {{"workload", ColumnType::text},
                                    {"ranks", ColumnType::integer},
                                    {"ranks_per_host", ColumnType::integer},
                                    {"time", ColumnType::real, "s"},
                                    {"kind", ColumnType::text},
                                    {"speedup", ColumnType::real},
                                    {"faster", ColumnType::text},
                                    {"faster_time", ColumnType::real, "s"}});
  Table lines("lines", {{"ranks", ColumnType::integer}, {"line", ColumnType::text}});
  for (const DryRun& run : runs) {
    const auto ranks = static_cast<std::int64_t>(run.ranks);
    predictions.add({run.workload, ranks, static_cast<std::int64_t>(run.ranks_on_host), run.seconds,
                     run.is_minimum ? "minimum" : "estimate", runs.front().seconds / run.seconds,
                     run.faster ? run.faster->option + '=' + run.faster->value : "",
                     run.faster ? run.faster->seconds : std::nan("")});
    for (const std::string& line : run.lines) lines.add({ranks, line});
  }
  if (printing == Printing::text) return to_text(without_empty_columns(predictions));
  const std::array tables = {std::move(predictions), std::move(lines)};
  return to_json(tables);
}

}  // namespace shardstream::execution
