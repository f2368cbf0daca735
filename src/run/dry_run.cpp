#include "run/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "core/text.hpp"
#include "core/units.hpp"
#include "io/output/checkpoint.hpp"
#include "io/output/part_file.hpp"
#include "measure/sample.hpp"
#include "run/output.hpp"
#include "workloads/registry.hpp"

namespace shardstream::run {
namespace {

namespace fs = std::filesystem;
using Checkpoints = workloads::Prediction::Checkpoints;

std::uint64_t bytes_of(const std::optional<workloads::OutputMatrix>& output) {
  return output ? output->rows * output->columns * size_of(output->type) : 0;
}

/// Describes when a run writes checkpoints, and their size.
std::string checkpoint(const Options& options, const fs::path& result,
                       const std::optional<workloads::OutputMatrix>& output,
                       const Checkpoints& checkpoints) {
  if (!measure::sampling(options).is_single()) {
    return "none, since the run repeats (measure.repeat, measure.warmup)";
  }
  if (checkpoints.units == 1) {
    return fmt::format(
        "none before the end, since {} is a single {}: a smaller --pipeline.gpu-memory makes more",
        output ? output->name : "the result", checkpoints.unit);
  }
  return fmt::format(
      "after each of {} {}s, in '{}'{} and '{}', one journal per rank, about {} in "
      "total",
      checkpoints.units, checkpoints.unit, io::part_path_of(result, "UUID").string(),
      output
          ? fmt::format(" with {} ({} from the start)", output->name, format_size(bytes_of(output)))
          : " (the unfinished result)",
      io::part_path_of(result, "UUID.RANK").replace_extension("checkpoint").string(),
      format_size(checkpoints.journal_bytes));
}

/// Describes the checkpoint of interrupted runs. Throws UsageError if it belongs to another
/// computation.
std::string resuming(const Options& options, const fs::path& result, const Checkpoints& checkpoints,
                     Log& log) {
  const io::Remains remains = io::look_for_remains(result);
  for (const std::string& warning : remains.warnings) log.warn(warning);
  if (remains.contested) {
    return fmt::format("another run is writing '{}' and may finish it", result.string());
  }
  if (!remains.checkpoint) {
    const bool named = options.text("output.file").find("{jobid}") == std::string::npos;
    return fmt::format("there is no checkpoint for '{}'{}", result.string(),
                       named ? ""
                             : "; since {jobid} in output.file changes, a later run does not find "
                               "one either: name the output with -o");
  }
  const std::string left =
      fmt::format("{} finished tiles of an interrupted run", remains.checkpoint->pieces.size());
  if (options.text("output.resume") == "never") {
    return fmt::format("{} are removed (output.resume is never)", left);
  }
  if (!measure::sampling(options).is_single()) {
    return fmt::format("{} are not used, since a run that repeats starts over", left);
  }
  return fmt::format(
      "{}; this needs the same device and library, and disk space for C twice until it is done",
      checkpoints.kept(*remains.checkpoint));
}

}  // namespace

std::string dry_run(const Options& options, const measure::Request& request, Log& log) {
  const std::string& workload = options.text("run.workload");
  measure::Machine machine(options, request);
  const std::unique_ptr<workloads::Task> task = workloads::open(options);
  const io::Origin inputs = task->inputs();
  for (const std::string& warning : inputs.warnings) log.warn(warning);
  const auto output = task->output();
  check_output(options, request.ranks, bytes_of(output), inputs.files);
  workloads::Prediction prediction = task->predict(machine);
  for (const std::string& warning : prediction.warnings) log.warn(warning);

  std::vector<std::string> lines = prediction.lines;
  // The answer comes first: the time with what it is bound by, and the memory. Then the plan.
  const auto details = std::ranges::stable_partition(lines, [](const std::string& line) {
    return line.starts_with("predicted: ") || line.starts_with("device memory: ") ||
           line.starts_with("host memory: ");
  });
  const std::vector<std::string> rates = machine.lines();
  lines.insert(details.begin(), rates.begin(), rates.end());
  if (output) {
    lines.push_back(
        fmt::format("result: {} takes {} of disk", output->name, format_size(bytes_of(output))));
  }
  if (prediction.checkpoints) {
    const fs::path result = result_path(options, request.ranks);
    lines.push_back("checkpoint: " + checkpoint(options, result, output, *prediction.checkpoints));
    lines.push_back("resuming: " + resuming(options, result, *prediction.checkpoints, log));
  }
  if (const std::string warning = machine.warning(); !warning.empty()) log.warn(warning);
  std::string text =
      fmt::format("dry run of {} on {} rank{}, {} per host: nothing is computed or written\n",
                  workload, request.ranks, request.ranks == 1 ? "" : "s", request.ranks_on_host);
  for (const std::string& line : lines) text += printable(line) + '\n';  // for names of files
  return text;
}

}  // namespace shardstream::run
