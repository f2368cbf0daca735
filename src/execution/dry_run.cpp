#include "execution/dry_run.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <vector>

#include "core/error.hpp"
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

/// The predicted time of one rank over that of this prediction; NaN if one rank cannot do the work.
double speedup_of(const workloads::Task& task, const workloads::Prediction& prediction,
                  const Options& options, const measure::PlannedRanks& planned) {
  if (planned.ranks == 1) return 1;
  measure::PlannedRanks one = planned;
  one.ranks = one.ranks_on_host = 1;
  measure::Machine machine(options, one);
  try {
    return task.predict(machine).seconds / prediction.seconds;
  } catch (const UsageError&) {
    return std::nan("");
  }
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
  workloads::Prediction prediction = task->predict(machine);
  for (const std::string& warning : prediction.warnings) log.warn(warning);

  DryRun run{.workload = workload,
             .ranks = planned.ranks,
             .ranks_on_host = machine.ranks_on_host(),
             .prediction = {},
             .speedup = speedup_of(*task, prediction, options, planned),
             .rates = machine.used_rates(),
             .lines = prediction.answer};
  const auto add = [&run](const std::vector<std::string>& lines) {
    run.lines.insert(run.lines.end(), lines.begin(), lines.end());
  };
  if (prediction.faster) add({"faster: " + words_of(*prediction.faster)});
  if (planned.ranks > 1 && std::isfinite(run.speedup)) {
    add({fmt::format("speedup: {:.4g} over 1 rank, efficiency {:.4g}", run.speedup,
                     run.speedup / static_cast<double>(planned.ranks))});
  }
  add(machine.lines());
  add(prediction.plan);
  if (!outputs.empty()) {
    add({fmt::format("result: {} {} {} of disk", names_of(outputs),
                     outputs.size() == 1 ? "takes" : "take", format_size(bytes_of(outputs)))});
  }
  if (prediction.checkpoints) {
    add(of_checkpoints(options, result_path(options, planned.ranks), outputs,
                       *prediction.checkpoints, log));
  }
  machine.warn(log);
  run.prediction = std::move(prediction);
  return run;
}

std::string to_output(std::span<const DryRun> runs, Printing printing) {
  if (printing == Printing::text && runs.size() == 1) return in_full(runs.front());
  const ColumnType integer = ColumnType::integer, real = ColumnType::real, text = ColumnType::text;
  Table predictions("predictions", {{"workload", text},
                                    {"ranks", integer},
                                    {"ranks_per_host", integer},
                                    {"time", real, "s"},
                                    {"kind", text},
                                    {"speedup", real},
                                    {"bound_by", text},
                                    {"faster", text},
                                    {"faster_time", real, "s"}});
  Table limits("limits", {{"ranks", integer}, {"limit", text}, {"time", real, "s"}});
  Table memory(
      "memory",
      {{"ranks", integer}, {"device_memory", integer, "B"}, {"device_memory_limit", integer, "B"}});
  Table rates(
      "rates",
      {{"ranks", integer}, {"ceiling", text}, {"rate", real}, {"unit", text}, {"origin", text}});
  Table lines("lines", {{"ranks", integer}, {"line", text}});
  for (const DryRun& run : runs) {
    const auto ranks = static_cast<std::int64_t>(run.ranks);
    const workloads::Prediction& prediction = run.prediction;
    const auto& faster = prediction.faster;
    const auto bound =
        std::ranges::max_element(prediction.limits, {}, &workloads::PredictedLimit::seconds);
    predictions.add({run.workload, ranks, static_cast<std::int64_t>(run.ranks_on_host),
                     prediction.seconds, prediction.is_minimum ? "minimum" : "estimate",
                     run.speedup, bound == prediction.limits.end() ? "" : bound->name,
                     faster ? faster->option + '=' + faster->value : "",
                     faster ? faster->seconds : std::nan("")});
    for (const auto& limit : prediction.limits) limits.add({ranks, limit.name, limit.seconds});
    if (const auto& device = prediction.device_memory) {
      memory.add({ranks, static_cast<std::int64_t>(device->needed),
                  static_cast<std::int64_t>(device->limit)});
    }
    for (const auto& rate : run.rates) {
      rates.add(
          {ranks, rate.ceiling, rate.value, rate.unit, rate.is_measured ? "measured" : "assumed"});
    }
    for (const std::string& line : run.lines) lines.add({ranks, line});
  }
  if (printing == Printing::text) return to_text(without_empty_columns(predictions));
  const std::array tables = {std::move(predictions), std::move(limits), std::move(memory),
                             std::move(rates), std::move(lines)};
  return to_json(tables);
}

}  // namespace shardstream::execution
