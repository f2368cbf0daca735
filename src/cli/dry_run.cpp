#include "cli/dry_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "cli/result_path.hpp"
#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/table.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "device/host/memory.hpp"
#include "io/checkpoint.hpp"
#include "io/part_file.hpp"
#include "io/result_file.hpp"
#include "io/source.hpp"
#include "kernels/kernel.hpp"
#include "kernels/reduce/reduce.hpp"
#include "launch/session.hpp"
#include "pipeline/options.hpp"
#include "workloads/gemm.hpp"
#include "workloads/gemm_plan.hpp"
#include "workloads/gram.hpp"
#include "workloads/product.hpp"

namespace shardstream::cli {
namespace {

namespace fs = std::filesystem;
using gemm::Precision;

constexpr std::uint64_t usual_ranks_on_host = 8;

// ---------------------------------------------------------------- what a machine can do

/// About an H100's memory, and what tiles of it reach in Gflop/s; of a host those of a few cores.
/// What a host has free of memory this machine tells.
constexpr std::uint64_t assumed_gpu_memory = 80'000'000'000;
constexpr double assumed_gpu_link = 50, assumed_host_link = 10;      // GB/s
constexpr double assumed_gpu_read = 2500, assumed_host_read = 10;    // GB/s of its own memory
constexpr double assumed_gpu_gather = 200, assumed_host_gather = 5;  // GB/s, within a host
constexpr double assumed_network_gather = 20;                        // GB/s of a rank

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

std::size_t column_of(const Table& table, std::string_view name) {
  const auto found = std::ranges::find(table.columns(), name, &Column::name);
  expect(found != table.columns().end(), "a result's table has its columns");
  return static_cast<std::size_t>(found - table.columns().begin());
}

/// What readers have to bring: "f32, contiguous". Which seed is generated, and whether a file was
/// in the page cache when the run began, makes no other kind.
std::string kind(std::string_view type, std::string_view access) {
  const bool is_known = access.starts_with("contiguous") || access.starts_with("generated");
  return fmt::format("{}, {}", type, is_known ? access.substr(0, access.find(',')) : access);
}

/// "f32, contiguous in fp32": what readers of a product do.
std::string readers(std::string_view precision, const std::set<std::string>& kinds,
                    const std::string& mode, bool normalized) {
  std::string text;
  for (const std::string& each : kinds)
    text += fmt::format("{}{}", text.empty() ? "" : " and ", each);
  return fmt::format("{} in {}{}{}", text, precision, mode == "pageable" ? ", from memory" : "",
                     normalized ? ", to be normalized" : "");
}

/// What a rank can do: as an earlier run has measured it, else assumed. Remembers what it was asked
/// for.
class Machine {
 public:
  Machine(const Options& options, const fs::path& result) : result_(result) {
    if (!result.empty()) read();
    choose_backend(options.text("device.backend"));
  }

  bool on_host() const { return on_host_; }

  /// In `unit`, which is 10^9 somethings a second.
  double rate(const std::string& ceiling, double assumed, std::string_view unit) {
    const bool known = knows(ceiling);
    if (known) taken_.push_back(ceiling);
    if (!rates_.contains(ceiling)) missing_.push_back(ceiling);
    const double value = known ? rates_.at(ceiling) : assumed;
    const std::string number =
        value < 1e4 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
    note(known, fmt::format("{} {} {}", ceiling, number, unit));
    return value * 1e9;
  }

  /// Whether a run has measured this ceiling, and it counts.
  bool knows(const std::string& ceiling) const {
    const auto found = rates_.find(ceiling);
    return found != rates_.end() && found->second > 0 && !refused_.contains(ceiling);
  }

  /// From now on what was measured of it does not count, if anything was.
  void refuse(const std::string& ceiling, const std::string& why) {
    if (rates_.contains(ceiling)) refused_.emplace(ceiling, why);
  }

  /// Says what this run goes by: nothing else that the result has counts.
  void go_by(const std::set<std::string>& ceilings) {
    for (const auto& [ceiling, rate] : rates_) {
      if (!ceilings.contains(ceiling)) unused_.push_back(ceiling);
    }
  }

  /// That none of these is known is to be told.
  void miss(const std::vector<std::string>& ceilings) {
    missing_.push_back(
        join(std::vector<std::string_view>(ceilings.begin(), ceilings.end()), " or "));
  }

  /// Readers that do something else bring more or less: what the result's brought does not count.
  void compare_readers(const workloads::GemmOperands& operands, const Options& options) {
    if (!rates_.contains("panel_read")) return;
    std::set<std::string> kinds;
    for (const auto* matrix : {operands.a.get(), operands.b.get()}) {
      kinds.insert(kind(name_of(matrix->type()), matrix->access()));
    }
    const std::string now = readers(name_of(operands.precision), kinds,
                                    options.text("pipeline.mode"), operands.normalizes());
    if (const std::string then = readers_of_result(); then != now) {
      refuse("panel_read", fmt::format("which was of {} and is of {}", then, now));
    }
  }

  /// The lower of two, where a run has measured this ceiling as well.
  double limited(double value, const std::string& ceiling, std::string_view unit) {
    return knows(ceiling) ? std::min(value, rate(ceiling, value, unit)) : value;
  }

  /// A result of one host does not tell how ranks of several reach each other.
  double gather_rate(bool between_hosts) {
    if (between_hosts && !several_hosts_) refuse("all_gather", "within a host");
    const double here = on_host_ ? assumed_host_gather : assumed_gpu_gather;
    return rate("all_gather", between_hosts ? std::min(here, assumed_network_gather) : here,
                between_hosts ? "GB/s between hosts" : "GB/s");
  }

  /// Bytes that a rank's device has: of a host a share of what is free.
  std::uint64_t device_memory(const Options& options, std::uint64_t ranks_on_host) {
    if (!options.is_auto("pipeline.gpu-memory")) return 0;  // the option says what may be used
    if (on_host_) {
      const std::uint64_t bytes = device::host::available_memory() / ranks_on_host;
      note(false, fmt::format("device memory {} (of this machine's, {})", format_size(bytes),
                              ranks_on_host == 1 ? "all that is free"
                                                 : fmt::format("one of {} shares", ranks_on_host)));
      return bytes;
    }
    const std::uint64_t bytes = gpu_memory_.value_or(assumed_gpu_memory);
    note(gpu_memory_.has_value(), fmt::format("device memory {}", format_size(bytes)));
    return bytes;
  }

  /// Where a result was given that tells only in part of what `workload` goes by: what of it
  /// counts, and what does not and why. Else empty.
  std::string warning(const std::string& workload) const {
    const bool alike = (workload == "reduce") == (workload_ == "reduce");
    if (result_.empty() || (alike && refused_.empty() && missing_.empty())) return {};
    std::string text;
    const auto add = [&](std::string_view what, const std::string& ceilings) {
      if (ceilings.empty()) return;
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", what, ceilings);
    };
    const auto listed = [](const std::vector<std::string>& words) {
      return join(std::vector<std::string_view>(words.begin(), words.end()), ", ");
    };
    add("taken", taken_.empty() ? "nothing" : listed(taken_));
    for (const auto& [ceiling, why] : refused_) {
      add("not taken", fmt::format("{}, {}", ceiling, why));
    }
    add("no limit of this run", listed(unused_));
    add("not in it", listed(missing_));
    return fmt::format(
        "--rates: '{}' is a result of {} and tells only in part of this run ({}): pass a result of "
        "a run more like it, or take the rest as assumed",
        result_.string(), workload_, text);
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> lines{
        fmt::format("backend: {}, {}", on_host_ ? "host (CPUs)" : "cuda (GPUs)", why_backend_)};
    if (!measured_.empty()) {
      lines.push_back(fmt::format("measured of a rank, in {}: {}", result_.string(), measured_));
    }
    if (!assumed_.empty()) {
      lines.push_back(fmt::format(
          "assumed of a rank: {}; a run measures its machine: pass its result with --rates",
          assumed_));
    }
    return lines;
  }

 private:
  /// What the result's readers did, in the words of readers().
  std::string readers_of_result() const {
    const auto config = [&](const char* key) {
      return io::read_result_text(result_, "/config", key);
    };
    std::set<std::string> kinds;
    for (const char* group : {"/input/a", "/input/b"}) {
      const std::string type = io::read_result_text(result_, group, "type");
      if (type.empty()) continue;
      kinds.insert(kind(type, io::read_result_text(result_, group, "access")));
    }
    const bool is_gram = workload_ == "gram";
    return readers(
        config("gemm.precision"), kinds, config("pipeline.mode"),
        is_gram && (config("gram.center") != "false" || config("gram.scale") != "false"));
  }

  void read() {
    const Table ceilings = table("/ceilings");
    workload_ = io::read_result_text(result_, "/config", "run.workload");
    const std::size_t name = column_of(ceilings, "ceiling");
    const std::size_t least = column_of(ceilings, "per_rank_min");
    for (const auto& row : ceilings.rows()) {
      rates_[std::get<std::string>(row[name])] = std::get<double>(row[least]);
    }
    const Table ranks = table("/topology/ranks");
    const std::size_t host = column_of(ranks, "host");
    std::set<std::string> hosts;
    for (const auto& row : ranks.rows()) hosts.insert(std::get<std::string>(row[host]));
    several_hosts_ = hosts.size() > 1;
    const Table gpus = table("/topology/gpus");
    const std::size_t rank = column_of(gpus, "rank"), memory = column_of(gpus, "memory");
    for (const auto& row : gpus.rows()) {
      const auto bytes = std::get<std::int64_t>(row[memory]);
      if (std::get<std::int64_t>(row[rank]) < 0 || bytes <= 0) continue;
      gpu_memory_ = std::min(gpu_memory_.value_or(UINT64_MAX), static_cast<std::uint64_t>(bytes));
    }
  }

  Table table(const char* path) const {
    try {
      return io::read_result_table(result_, path);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("--rates: {}", error.what()), error.where());
    }
  }

  /// Where the option leaves it open: a result's, else what the program was built for.
  void choose_backend(const std::string& wish) {
    if (wish != "auto") {
      on_host_ = wish == "host";
      why_backend_ = "as device.backend asks for";
    } else if (!result_.empty()) {
      on_host_ = !gpu_memory_;
      why_backend_ = "as the result of --rates";
    } else {
      on_host_ = !built_with_cuda;
      why_backend_ = on_host_ ? "since this program was built without CUDA; --device.backend cuda "
                                "plans for GPUs"
                              : "since this program was built with CUDA; --device.backend host "
                                "plans for CPUs";
    }
    if (result_.empty() || on_host_ == !gpu_memory_) return;
    throw UsageError(fmt::format(
        "--rates: '{}' was measured on {}, which tells nothing of {}, where the run is planned "
        "(device.backend is {}): pass a result of these, or leave --rates out",
        result_.string(), gpu_memory_ ? "GPUs" : "CPUs", on_host_ ? "CPUs" : "GPUs", wish));
  }

  void note(bool known, const std::string& words) {
    std::string& list = known ? measured_ : assumed_;
    list += (list.empty() ? "" : ", ") + words;
  }

  fs::path result_;
  std::string workload_;  ///< the result's
  std::map<std::string, double> rates_;
  std::map<std::string, std::string> refused_;  ///< of `rates_`, with the reason
  std::vector<std::string> taken_, unused_, missing_;
  bool several_hosts_ = false;
  std::optional<std::uint64_t> gpu_memory_;  ///< the least of any rank's
  bool on_host_ = false;
  std::string why_backend_, measured_, assumed_;
};

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
  const std::uint64_t journals =
      io::journal_bytes(print, plan.problem.ranks, tiles_of(plan), plan.super_tiles());
  return fmt::format(
      "after each of {} super-tiles, in '{}'{} and '{}', a journal a rank, about {} in all",
      plan.super_tiles(), io::part_path_of(result, "UUID").string(),
      c_bytes > 0 ? fmt::format(" with C, {} from the beginning,", format_size(c_bytes))
                  : ", the beginning of the result,",
      io::part_path_of(result, "UUID.RANK").replace_extension("checkpoint").string(),
      format_size(journals));
}

/// What interrupted runs have left for this one. Throws UsageError where it is another product's.
std::string going_on(const Options& options, const fs::path& result,
                     const workloads::GemmPlan& plan, const io::Fingerprint& print) {
  const io::Remains remains = io::look_for_remains(result);
  if (remains.contested) {
    return fmt::format("a run that still goes on is writing '{}', which it may finish",
                       result.string());
  }
  if (!remains.checkpoint) {
    const bool named = options.text("output.file").find("{jobid}") == std::string::npos;
    return fmt::format(
        "no interrupted run of '{}' has left anything{}", result.string(),
        named ? ""
              : "; a name with the job's number or the time in it finds nothing again: "
                "name the output with -o");
  }
  const std::string left =
      fmt::format("{} of {} tiles", remains.checkpoint->tiles.size(), tiles_of(plan));
  if (options.text("output.resume") == "never") {
    return fmt::format(
        "what is left of an interrupted run, {}, is removed, as output.resume asks for", left);
  }
  if (!workloads::leaves_checkpoint(options)) {
    return fmt::format(
        "a run that repeats begins anew, without what is left of an interrupted one, {}", left);
  }
  io::expect_same_product(*remains.checkpoint, print, options.flag("output.store"),
                          workloads::of_machine);
  return fmt::format(
      "an interrupted run of '{}' has finished {}, of which those in whole super-tiles are taken "
      "over if device and library are the same; until that is done C is on disk twice",
      result.string(), left);
}

Lines plan_product(const Options& options, const DryRun& wishes, Machine& machine, Log& log) {
  const workloads::GemmOperands operands = options.text("run.workload") == "gemm"
                                               ? workloads::open_gemm(options)
                                               : workloads::open_gram(options);
  workloads::check_operands(operands);
  const std::uint64_t c_bytes =
      options.flag("output.store")
          ? operands.m * operands.n * gemm::accumulator_bytes(operands.precision)
          : 0;
  check_output(options, wishes.ranks, c_bytes);
  const bool on_host = machine.on_host();
  const double link = on_host ? assumed_host_link : assumed_gpu_link;
  const bool between_hosts = wishes.ranks > wishes.ranks_on_host;
  const std::string multiply = fmt::format("multiply_{}", name_of(operands.precision));
  machine.go_by({"link_up", "link_down", "panel_read", "all_gather", multiply});
  machine.compare_readers(operands, options);
  const workloads::GemmRates rates{
      .link_up = machine.limited(machine.rate("link_up", link, "GB/s"), "panel_read", "GB/s"),
      .link_down = machine.rate("link_down", link, "GB/s"),
      .gather = wishes.ranks > 1 ? machine.gather_rate(between_hosts) : 1e12,
      .flops = machine.rate(multiply, assumed_gflops(operands.precision, on_host), "Gflop/s")};
  const std::uint64_t limit = pipeline::device_limit(
      options, {.device_memory = machine.device_memory(options, wishes.ranks_on_host)});
  const workloads::GemmPlan plan = workloads::plan_gemm(
      workloads::problem_of(operands, options, wishes.ranks, limit, on_host), rates, 0);
  if (const std::string idle = workloads::idle_ranks(plan); !idle.empty()) log.warn(idle);
  Lines lines = describe(plan);
  if (c_bytes > 0) {
    lines.push_back(fmt::format("result: C takes {} of disk", format_size(c_bytes)));
  }
  const fs::path result = result_path(options, wishes.ranks);
  const io::Fingerprint print =
      workloads::fingerprint(operands, options, options.text("run.workload"), plan);
  lines.push_back("checkpoint: " + checkpoint(options, result, plan, print, c_bytes));
  lines.push_back("going on: " + going_on(options, result, plan, print));
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

Lines plan_reduction(const Options& options, const DryRun& wishes, Machine& machine) {
  const std::unique_ptr<io::Source> source = io::open_source(options);
  const std::uint64_t elements = source->order().count(), element = size_of(source->type());
  const std::uint64_t leaves = ceil_div(elements, reduce::leaf_elements);
  const Range own = shard(elements, reduce::leaf_elements, 0, wishes.ranks);
  check_output(options, wishes.ranks, 0);
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
    throw UsageError(fmt::format(
        "--{} is for planning a run: pass --dry-run too, or leave it out (mpirun or srun says how "
        "many ranks there are)",
        word));
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
  const Lines plan = workload == "reduce" ? plan_reduction(options, wishes, machine)
                                          : plan_product(options, wishes, machine, log);
  if (const std::string warning = machine.warning(workload); !warning.empty()) log.warn(warning);
  std::string text =
      fmt::format("dry run of {} on {} rank{}, {} on a host: nothing is computed or written\n",
                  workload, wishes.ranks, wishes.ranks == 1 ? "" : "s", wishes.ranks_on_host);
  for (const Lines& lines : {machine.lines(), plan}) {
    for (const std::string& line : lines) text += line + '\n';
  }
  return text;
}

}  // namespace shardstream::cli
