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
#include "core/units.hpp"
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
constexpr std::uint64_t assumed_gpu_memory = 80'000'000'000, assumed_host_memory = 16'000'000'000;
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
    const double value = known ? rates_.at(ceiling) : assumed;
    const std::string number =
        value < 1e4 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
    note(known, fmt::format("{} {} {}", ceiling, number, unit));
    return value * 1e9;
  }

  /// Whether a run has measured this ceiling.
  bool knows(const std::string& ceiling) const {
    const auto found = rates_.find(ceiling);
    return found != rates_.end() && found->second > 0;
  }

  /// The lower of two, where a run has measured this ceiling as well.
  double limited(double value, const std::string& ceiling, std::string_view unit) {
    return knows(ceiling) ? std::min(value, rate(ceiling, value, unit)) : value;
  }

  /// A result of one host does not tell how ranks of several reach each other.
  double gather_rate(bool between_hosts) {
    if (between_hosts && !several_hosts_) rates_.erase("all_gather");
    const double here = on_host_ ? assumed_host_gather : assumed_gpu_gather;
    return rate("all_gather", between_hosts ? std::min(here, assumed_network_gather) : here,
                between_hosts ? "GB/s between hosts" : "GB/s");
  }

  /// Bytes that a rank's device has.
  std::uint64_t device_memory(const Options& options) {
    if (!options.is_auto("pipeline.gpu-memory")) return 0;  // the option says what may be used
    const bool known = !on_host_ && gpu_memory_;
    const std::uint64_t bytes = known      ? *gpu_memory_
                                : on_host_ ? assumed_host_memory
                                           : assumed_gpu_memory;
    note(known, fmt::format("device memory {}", format_size(bytes)));
    return bytes;
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
  void read() {
    const Table ceilings = table("/ceilings");
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
  std::map<std::string, double> rates_;
  bool several_hosts_ = false;
  std::optional<std::uint64_t> gpu_memory_;  ///< the least of any rank's
  bool on_host_ = false;
  std::string why_backend_, measured_, assumed_;
};

// ---------------------------------------------------------------- workloads

using Lines = std::vector<std::string>;

Lines plan_product(const Options& options, const DryRun& wishes, Machine& machine) {
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
  const workloads::GemmRates rates{
      .link_up = machine.limited(machine.rate("link_up", link, "GB/s"), "panel_read", "GB/s"),
      .link_down = machine.rate("link_down", link, "GB/s"),
      .gather = wishes.ranks > 1 ? machine.gather_rate(between_hosts) : 1e12,
      .flops = machine.rate(fmt::format("multiply_{}", name_of(operands.precision)),
                            assumed_gflops(operands.precision, on_host), "Gflop/s")};
  const std::uint64_t limit =
      pipeline::device_limit(options, {.device_memory = machine.device_memory(options)});
  const workloads::GemmPlan plan = workloads::plan_gemm(
      workloads::problem_of(operands, options, wishes.ranks, limit, on_host), rates, 0);
  Lines lines = describe(plan);
  if (c_bytes > 0) {
    lines.push_back(fmt::format("result: C takes {} of disk", format_size(c_bytes)));
  }
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
    lower(name, machine.rate(name, on_host ? assumed_host_read : assumed_gpu_read, "GB/s"));
    return bound;
  }
  lower("link_up", machine.rate("link_up", on_host ? assumed_host_link : assumed_gpu_link, "GB/s"));
  if (mode != pipeline::Mode::stream) return bound;
  bound.knows_source = false;
  const auto stored = source.stored({0, source.order().count()});
  const std::vector<std::string> ways =
      stored && stored->as_wanted ? std::vector<std::string>{"page_cache_read", "storage_read"}
                                  : std::vector<std::string>{"decode"};
  for (const std::string& way : ways) {
    if (!machine.knows(way)) continue;
    bound.knows_source = true;
    lower(way, machine.rate(way, 0, "GB/s"));
  }
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

std::string dry_run(const Options& options, const DryRun& wishes) {
  const std::string& workload = options.text("run.workload");
  Machine machine(options, wishes.rates);
  const Lines plan = workload == "reduce" ? plan_reduction(options, wishes, machine)
                                          : plan_product(options, wishes, machine);
  std::string text =
      fmt::format("dry run of {} on {} rank{}, {} on a host: nothing is computed or written\n",
                  workload, wishes.ranks, wishes.ranks == 1 ? "" : "s", wishes.ranks_on_host);
  for (const Lines& lines : {machine.lines(), plan}) {
    for (const std::string& line : lines) text += line + '\n';
  }
  return text;
}

}  // namespace shardstream::cli
