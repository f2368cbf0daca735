#include "cli/dry_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/table.hpp"
#include "core/units.hpp"
#include "io/result_file.hpp"
#include "io/source.hpp"
#include "kernels/reduce/reduce.hpp"
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
  explicit Machine(const fs::path& result) : result_(result) {
    if (result.empty()) return;
    const Table ceilings = io::read_result_table(result, "/ceilings");
    const std::size_t name = column_of(ceilings, "ceiling");
    const std::size_t least = column_of(ceilings, "per_rank_min");
    for (const auto& row : ceilings.rows()) {
      rates_[std::get<std::string>(row[name])] = std::get<double>(row[least]);
    }
    const Table ranks = io::read_result_table(result, "/topology/ranks");
    const std::size_t host = column_of(ranks, "host");
    std::set<std::string> hosts;
    for (const auto& row : ranks.rows()) hosts.insert(std::get<std::string>(row[host]));
    several_hosts_ = hosts.size() > 1;
    const Table gpus = io::read_result_table(result, "/topology/gpus");
    const std::size_t rank = column_of(gpus, "rank"), memory = column_of(gpus, "memory");
    for (const auto& row : gpus.rows()) {
      const auto bytes = std::get<std::int64_t>(row[memory]);
      if (std::get<std::int64_t>(row[rank]) < 0 || bytes <= 0) continue;
      gpu_memory_ = std::min(gpu_memory_.value_or(UINT64_MAX), static_cast<std::uint64_t>(bytes));
    }
  }

  /// Where the options leave it open, a result without GPUs is of hosts.
  bool on_host(const Options& options) const {
    const std::string& backend = options.text("device.backend");
    return backend == "auto" ? !result_.empty() && !gpu_memory_ : backend == "host";
  }

  /// In `unit`, which is 10^9 somethings a second.
  double rate(const std::string& ceiling, double assumed, std::string_view unit) {
    const auto found = rates_.find(ceiling);
    const bool known = found != rates_.end() && found->second > 0;
    const double value = known ? found->second : assumed;
    const std::string number =
        value < 1e4 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
    note(known, fmt::format("{} {} {}", ceiling, number, unit));
    return value * 1e9;
  }

  /// The lower of two, where a run has measured this ceiling as well.
  double limited(double value, const std::string& ceiling, std::string_view unit) {
    return rates_.contains(ceiling) ? std::min(value, rate(ceiling, value, unit)) : value;
  }

  /// A result of one host does not tell how ranks of several reach each other.
  double gather_rate(bool between_hosts, bool on_host) {
    if (between_hosts && !several_hosts_) rates_.erase("all_gather");
    const double here = on_host ? assumed_host_gather : assumed_gpu_gather;
    return rate("all_gather", between_hosts ? std::min(here, assumed_network_gather) : here,
                between_hosts ? "GB/s between hosts" : "GB/s");
  }

  /// Bytes that a rank's device has.
  std::uint64_t device_memory(const Options& options, bool on_host) {
    if (!options.is_auto("pipeline.gpu-memory")) return 0;  // the option says what may be used
    const bool known = !on_host && gpu_memory_;
    const std::uint64_t bytes = known     ? *gpu_memory_
                                : on_host ? assumed_host_memory
                                          : assumed_gpu_memory;
    note(known, fmt::format("device memory {}", format_size(bytes)));
    return bytes;
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
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
  void note(bool known, const std::string& words) {
    std::string& list = known ? measured_ : assumed_;
    list += (list.empty() ? "" : ", ") + words;
  }

  fs::path result_;
  std::map<std::string, double> rates_;
  bool several_hosts_ = false;
  std::optional<std::uint64_t> gpu_memory_;  ///< the least of any rank's
  std::string measured_, assumed_;
};

// ---------------------------------------------------------------- workloads

using Lines = std::vector<std::string>;

Lines plan_product(const Options& options, const DryRun& wishes, Machine& machine) {
  const workloads::GemmOperands operands = options.text("run.workload") == "gemm"
                                               ? workloads::open_gemm(options)
                                               : workloads::open_gram(options);
  workloads::check_operands(operands);
  const bool on_host = machine.on_host(options);
  const double link = on_host ? assumed_host_link : assumed_gpu_link;
  const bool between_hosts = wishes.ranks > wishes.ranks_on_host;
  const workloads::GemmRates rates{
      .link_up = machine.limited(machine.rate("link_up", link, "GB/s"), "panel_read", "GB/s"),
      .link_down = machine.rate("link_down", link, "GB/s"),
      .gather = wishes.ranks > 1 ? machine.gather_rate(between_hosts, on_host) : 1e12,
      .flops = machine.rate(fmt::format("multiply_{}", name_of(operands.precision)),
                            assumed_gflops(operands.precision, on_host), "Gflop/s")};
  const std::uint64_t limit =
      pipeline::device_limit(options, {.device_memory = machine.device_memory(options, on_host)});
  const workloads::GemmPlan plan = workloads::plan_gemm(
      workloads::problem_of(operands, options, wishes.ranks, limit, on_host), rates, 0);
  Lines lines = describe(plan);
  if (options.flag("output.store")) {
    const std::uint64_t element = gemm::accumulator_bytes(operands.precision);
    lines.push_back(
        fmt::format("result: C takes {} of disk", format_size(operands.m * operands.n * element)));
  }
  return lines;
}

Lines plan_reduction(const Options& options, const DryRun& wishes, Machine& machine) {
  const std::unique_ptr<io::Source> source = io::open_source(options);
  const std::uint64_t elements = source->order().count(), element = size_of(source->type());
  const std::uint64_t leaves = ceil_div(elements, reduce::leaf_elements);
  const Range own = shard(elements, reduce::leaf_elements, 0, wishes.ranks);
  const bool on_host = machine.on_host(options);
  const double link =
      machine.rate("link_up", on_host ? assumed_host_link : assumed_gpu_link, "GB/s");
  const std::uint64_t bytes = own.count * element;
  return {fmt::format("data: {}, {} elements of {}, {}", source->name(), elements,
                      name_of(source->type()), format_size(elements * element)),
          fmt::format("leaves: {} of {} elements; shard of rank 0: {} of them, {}", leaves,
                      reduce::leaf_elements, ceil_div(own.count, reduce::leaf_elements),
                      format_size(bytes)),
          fmt::format("predicted: {} or more, which the host link takes; its storage may be slower",
                      format_duration(static_cast<double>(bytes) / link))};
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
  throw UsageError(
      fmt::format("--{}: {} ranks can't be: give a number from 1 to 2^32-1", name, found->second));
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
  wishes.ranks = positive_count(line, "ranks", 1);
  wishes.ranks_on_host =
      std::min(wishes.ranks, positive_count(line, "gpus-per-node", usual_ranks_on_host));
  if (const auto rates = line.settings.find("rates"); rates != line.settings.end()) {
    wishes.rates = rates->second;
  }
  return wishes;
}

std::string dry_run(const Options& options, const DryRun& wishes) {
  const std::string& workload = options.text("run.workload");
  Machine machine(wishes.rates);
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
