#include "cli/dry_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cli/machine.hpp"
#include "cli/result_path.hpp"
#include "comm/transport.hpp"
#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "io/checkpoint.hpp"
#include "io/part_file.hpp"
#include "io/source.hpp"
#include "kernels/gemm/grid.hpp"
#include "kernels/reduce/reduce.hpp"
#include "launch/session.hpp"
#include "pipeline/options.hpp"
#include "workloads/gemm.hpp"
#include "workloads/gemm_plan.hpp"
#include "workloads/gram.hpp"
#include "workloads/product.hpp"
#include "workloads/taken_tiles.hpp"

namespace shardstream::cli {
namespace {

namespace fs = std::filesystem;
using gemm::Precision;

constexpr std::uint64_t usual_ranks_on_host = 8;

// ---------------------------------------------------------------- what is assumed

/// About an H100's memory and link, and what tiles of it reach in Gflop/s; of a host those of a few
/// cores.
constexpr double assumed_gpu_link = 50, assumed_host_link = 10;    // GB/s
constexpr double assumed_gpu_read = 2500, assumed_host_read = 10;  // GB/s of its own memory

double assumed_gflops(Precision precision, bool on_host) {
  switch (precision) {
    case Precision::fp64:
      return on_host ? 200 : 55'000;
    case Precision::fp32:
      return on_host ? 400 : 50'000;
    case Precision::tf32:
      return on_host ? 400 : 330'000;
    case Precision::bf16:
    case Precision::fp16:
      return on_host ? 400 : 650'000;
    case Precision::int8:
      return on_host ? 350 : 1'200'000;
    case Precision::fp32x3:
      return on_host ? 130 : 110'000;
  }
  throw ContractError("every precision has an assumed rate");
}

// ---------------------------------------------------------------- workloads

using Lines = std::vector<std::string>;

std::uint64_t tiles_of(const workloads::GemmPlan& plan) {
  return plan.count_tiles({{0, plan.tile_rows}, {0, plan.tile_columns}});
}

/// When a run leaves what another can go on from, and how large that is.
std::string checkpoint(const Options& options, const fs::path& result,
                       const workloads::GemmPlan& plan, const io::Fingerprint& print,
                       std::uint64_t c_bytes) {
  if (!workloads::leaves_checkpoint(options)) {
    return "none, since the run repeats (measure.repeat, measure.warmup)";
  }
  if (plan.super_tiles() == 1) {
    return "none before the end, since all of C is one super-tile: a smaller --pipeline.gpu-memory "
           "makes more";
  }
  const std::uint64_t ranks = plan.problem.ranks;
  const std::uint64_t journals =
      ranks * io::journal_bytes(print, ceil_div(tiles_of(plan), ranks), plan.super_tiles());
  return fmt::format(
      "after each of {} super-tiles, in '{}'{} and '{}', a journal a rank, about {} in all",
      plan.super_tiles(), io::part_path_of(result, "UUID").string(),
      c_bytes > 0 ? fmt::format(" with C, {} from the beginning,", format_size(c_bytes))
                  : ", the beginning of the result,",
      io::part_path_of(result, "UUID.RANK").replace_extension("checkpoint").string(),
      format_size(journals));
}

/// What interrupted runs have left for this one. `plan_of` gives a rank's plan. Throws UsageError
/// if it is another product's.
std::string resuming(const Options& options, const fs::path& result,
                     const std::function<workloads::GemmPlan(std::uint64_t)>& plan_of,
                     const io::Fingerprint& print, Log& log) {
  const io::Remains remains = io::look_for_remains(result);
  for (const std::string& warning : remains.warnings) log.warn(warning);
  if (remains.contested) {
    return fmt::format("another run is writing '{}' and may finish it", result.string());
  }
  if (!remains.checkpoint) {
    const bool named = options.text("output.file").find("{jobid}") == std::string::npos;
    return fmt::format(
        "no interrupted run of '{}' has left anything{}", result.string(),
        named ? ""
              : "; a name with the job's number or the time in it finds nothing again: "
                "name the output with -o");
  }
  const io::Checkpoint& earlier = *remains.checkpoint;
  const std::string left =
      fmt::format("{} finished tiles of an interrupted run", earlier.tiles.size());
  if (options.text("output.resume") == "never") {
    return fmt::format("{} are removed (output.resume is never)", left);
  }
  if (!workloads::leaves_checkpoint(options)) {
    return fmt::format("{} are not used, since a run that repeats starts over", left);
  }
  io::expect_same_product(earlier, print, options.flag("output.store"), workloads::of_machine);
  std::vector<workloads::GemmPlan> plans{plan_of(0)};
  while (plans.size() < plans[0].problem.ranks) plans.push_back(plan_of(plans.size()));
  return fmt::format(
      "{}; this needs the same device and library, and C twice on disk until it is "
      "done",
      workloads::kept_tiles(workloads::count_kept(plans, earlier), earlier.tiles.size()));
}

Lines plan_product(const Options& options, const DryRun& wishes, comm::Transport transport,
                   Machine& machine, Log& log) {
  const workloads::GemmOperands operands = options.text("run.workload") == "gemm"
                                               ? workloads::open_gemm(options)
                                               : workloads::open_gram(options);
  workloads::check_operands(operands);
  const std::uint64_t c_bytes =
      options.flag("output.store")
          ? operands.m * operands.n * gemm::accumulator_bytes(operands.precision)
          : 0;
  const io::Origin inputs = workloads::inputs_of(operands);
  for (const std::string& warning : inputs.warnings) log.warn(warning);
  check_output(options, wishes.ranks, c_bytes, inputs.files);
  const bool on_host = machine.on_host();
  const double link = on_host ? assumed_host_link : assumed_gpu_link;
  const bool between_hosts = wishes.ranks > wishes.ranks_on_host;
  const std::string multiply = fmt::format("multiply_{}", name_of(operands.precision));
  machine.go_by({"link_up", "link_down", "panel_read", "all_gather", multiply});
  machine.compare_readers("panel_read", readers_of(operands, options));
  machine.compare_tile(
      multiply, gemm::tile_for(operands.m, operands.n, operands.k, operands.precision, on_host));
  const workloads::GemmRates rates{
      .link_up = machine.limited(machine.rate("link_up", link, "GB/s"), "panel_read", "GB/s"),
      .link_down = machine.rate("link_down", link, "GB/s"),
      .gather = wishes.ranks > 1 ? machine.gather_rate(between_hosts) : 1e12,
      .flops = machine.rate(multiply, assumed_gflops(operands.precision, on_host), "Gflop/s"),
      .gathers_block = transport == comm::Transport::mpi};
  const std::uint64_t limit = pipeline::device_limit(
      options, {.device_memory = machine.device_memory(options, wishes.ranks_on_host)});
  const workloads::GemmProblem problem =
      workloads::problem_of(operands, options, wishes.ranks, limit, on_host);
  const auto plan_of = [&](std::uint64_t rank) { return plan_gemm(problem, rates, rank); };
  const workloads::GemmPlan plan = plan_of(0);
  if (const std::string idle = workloads::idle_ranks(plan); !idle.empty()) log.warn(idle);
  Lines lines = describe(plan);
  if (c_bytes > 0) {
    lines.push_back(fmt::format("result: C takes {} of disk", format_size(c_bytes)));
  }
  const fs::path result = result_path(options, wishes.ranks);
  const io::Fingerprint print =
      workloads::fingerprint(operands, options, options.text("run.workload"), plan);
  lines.push_back("checkpoint: " + checkpoint(options, result, plan, print, c_bytes));
  lines.push_back("resuming: " + resuming(options, result, plan_of, print, log));
  return lines;
}

/// What the data passes on its way, as far as it is known, and the lowest of it.
struct Bound {
  std::string name;
  double rate;  // bytes/s
  bool knows_source = true;
};

Bound bound_of(const Options& options, const io::Source& source, Machine& machine) {
  const bool on_host = machine.on_host();
  const auto mode = pipeline::mode(options);
  Bound bound;
  const auto lower = [&](const std::string& name, double rate) {
    if (!bound.name.empty() && rate >= bound.rate) return;
    bound.name = name;
    bound.rate = rate;
  };
  if (mode == pipeline::Mode::resident) {
    const std::string name = on_host ? "host_memory_read" : "device_read";
    machine.go_by({name});
    lower(name, machine.rate(name, on_host ? assumed_host_read : assumed_gpu_read, "GB/s"));
    return bound;
  }
  const auto stored = source.stored({0, source.order().count()});
  const std::vector<std::string> ways =
      stored && stored->as_wanted ? std::vector<std::string>{"page_cache_read", "storage_read"}
                                  : std::vector<std::string>{"decode"};
  std::set<std::string> limits(ways.begin(), ways.end());
  if (mode != pipeline::Mode::stream) limits.clear();
  limits.insert("link_up");
  machine.go_by(limits);
  machine.compare_readers("decode", readers_of(source));
  lower("link_up", machine.rate("link_up", on_host ? assumed_host_link : assumed_gpu_link, "GB/s"));
  if (mode != pipeline::Mode::stream) return bound;
  bound.knows_source = false;
  for (const std::string& way : ways) {
    if (!machine.knows(way)) continue;
    bound.knows_source = true;
    lower(way, machine.rate(way, 0, "GB/s"));
  }
  if (!bound.knows_source) machine.miss(ways);
  return bound;
}

Lines plan_reduction(const Options& options, const DryRun& wishes, Machine& machine, Log& log) {
  const std::unique_ptr<io::Source> source = io::open_source(options);
  const std::uint64_t elements = source->order().count(), element = size_of(source->type());
  const std::uint64_t leaves = ceil_div(elements, reduce::leaf_elements);
  const Range own = shard(elements, reduce::leaf_elements, 0, wishes.ranks);
  for (const std::string& warning : source->origin().warnings) log.warn(warning);
  check_output(options, wishes.ranks, 0, source->origin().files);
  const Bound bound = bound_of(options, *source, machine);
  const std::uint64_t bytes = own.count * element;
  return {fmt::format("data: {}, {} elements of {}, {}", source->name(), elements,
                      name_of(source->type()), format_size(elements * element)),
          fmt::format("leaves: {} of {} elements; shard of rank 0: {} of them, {}", leaves,
                      reduce::leaf_elements, ceil_div(own.count, reduce::leaf_elements),
                      format_size(bytes)),
          fmt::format("predicted: {} or more, bound by {}{}",
                      format_duration(static_cast<double>(bytes) / bound.rate), bound.name,
                      bound.knows_source ? "" : "; reading the source may be slower")};
}

std::uint64_t positive_count(const CommandLine& line, std::string_view name,
                             std::uint64_t otherwise) {
  const auto found = line.settings.find(name);
  if (found == line.settings.end()) return otherwise;
  try {
    const std::uint64_t count = parse_count(found->second);
    if (count > 0 && count <= UINT32_MAX) return count;
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--{}: {}", name, error.what()));
  }
  throw UsageError(fmt::format("--{}: {} can't be: give a number of ranks from 1 to 2^32-1", name,
                               found->second));
}

}  // namespace

std::optional<DryRun> dry_run_of(const CommandLine& line) {
  if (!line.switches.contains("dry-run")) {
    if (line.settings.empty()) return std::nullopt;
    const std::string& word = line.settings.begin()->first;
    throw UsageError(
        fmt::format("--{} is for planning a run: pass --dry-run too, or leave it out{}", word,
                    word == "rates" ? "" : " (mpirun or srun says how many ranks there are)"));
  }
  DryRun wishes;
  const auto launched = launch::launched().value_or(launch::Launched{1, 1, ""});
  wishes.ranks = positive_count(line, "ranks", launched.ranks);
  const std::uint64_t on_host =
      wishes.ranks == launched.ranks ? launched.ranks_on_host : usual_ranks_on_host;
  wishes.ranks_on_host = std::min(wishes.ranks, positive_count(line, "gpus-per-node", on_host));
  if (const auto rates = line.settings.find("rates"); rates != line.settings.end()) {
    wishes.rates = rates->second;
  }
  return wishes;
}

std::string dry_run(const Options& options, const DryRun& wishes, Log& log) {
  const std::string& workload = options.text("run.workload");
  Machine machine(options, wishes.rates);
  // The program that will run there may have NCCL where this one has not.
  const comm::Transport transport = comm::choose_transport(
      options.text("comm.transport"),
      {.on_gpus = !machine.on_host(), .has_nccl = true, .ranks = static_cast<int>(wishes.ranks)});
  const Lines plan = workload == "reduce" ? plan_reduction(options, wishes, machine, log)
                                          : plan_product(options, wishes, transport, machine, log);
  if (const std::string warning = machine.warning(workload); !warning.empty()) log.warn(warning);
  std::string text =
      fmt::format("dry run of {} on {} rank{}, {} on a host: nothing is computed or written\n",
                  workload, wishes.ranks, wishes.ranks == 1 ? "" : "s", wishes.ranks_on_host);
  for (const Lines& lines : {machine.lines(), plan}) {
    for (const std::string& line : lines) text += printable(line) + '\n';  // files have names
  }
  return text;
}

}  // namespace shardstream::cli
