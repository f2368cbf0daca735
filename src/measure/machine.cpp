#include "measure/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/table.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "device/host/process_memory.hpp"
#include "kernels/kernel.hpp"
#include "ranks/cpus.hpp"
#include "result/columns.hpp"
#include "result/tables.hpp"

namespace shardstream::measure {
namespace {

/// The approximate memory of an H100. The memory of a host is never assumed.
constexpr std::uint64_t assumed_gpu_memory = 80'000'000'000;
constexpr double assumed_gpu_gather = 200, assumed_host_gather = 5;  // GB/s, within a host
constexpr double assumed_network_gather = 20;                        // GB/s of a rank

// Generous limits for plausible values in a result.
constexpr std::size_t max_ceilings = 1000;
constexpr double min_rate = 1e-12, max_rate = 1e9;  // 10^9 bytes or operations a second
constexpr std::int64_t min_memory = 1LL << 26, max_memory = 1LL << 50;

/// Whether a name is safe to show in warnings.
bool is_plain(std::string_view name) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789_-";
  return !name.empty() && name.size() <= 64 && name.find_first_not_of(letters) == name.npos;
}

/// Text from a file, shortened for a warning.
std::string cut(const std::string& text) {
  constexpr std::size_t max = 300;
  return text.size() <= max ? text : text.substr(0, max) + "...";
}

/// Typical rates of a rank in GB/s: of an H100 and its link, or of a few cores of a host.
double assumed_rate(const std::string& ceiling, Backend backend) {
  if (ceiling == "link_up" || ceiling == "link_down") return backend == Backend::host ? 10 : 50;
  if (ceiling == "device_read") return 2500;
  if (ceiling == "device_copy") return backend == Backend::host ? 10 : 2500;
  if (ceiling == "host_memory_read") return 10;
  throw ContractError(fmt::format("there is no assumed rate for the ceiling {}", ceiling));
}

}  // namespace

Machine::Machine(const Options& options, const PlannedRanks& planned)
    : planned_(planned), path_(options.text("measure.rates")) {
  if (!path_.empty()) {
    try {
      read(io::ResultReader(path_));
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("--rates: {}", error.what()), error.where());
    }
  }
  if (planned_.assumes_hosts && ranks_on_host_of_result_ > 0) {
    planned_.ranks_on_host = std::min(ranks(), ranks_on_host_of_result_);
    planned_.why_hosts = "as in the result of --rates";
  }
  choose_backend(planned_.backend.empty() ? options.text("device.backend") : planned_.backend);
  // The program of the planned run may have NCCL even if this one does not.
  transport_ = comm::choose_transport(
      options.text("comm.transport"),
      {.on_gpus = backend_ == Backend::cuda, .has_nccl = true, .ranks = static_cast<int>(ranks())});
}

void Machine::compare(const std::string& ceiling, const std::string& now) {
  const auto found = rates_.find(ceiling);
  if (found != rates_.end() && found->second.conditions != now) {
    reject_conditions(ceiling, found->second.conditions, now);
  }
}

void Machine::compare(const std::string& ceiling, const std::string& now,
                      const std::function<bool(const Sizes& then)>& same) {
  const auto found = rates_.find(ceiling);
  if (found == rates_.end() || same(found->second.sizes)) return;
  reject_conditions(ceiling, found->second.sizes.empty() ? "" : found->second.conditions, now);
}

double Machine::use_rate(const std::string& ceiling, double assumed, std::string_view unit) {
  const bool known = knows(ceiling);
  if (known) {
    used_.push_back(ceiling);
  } else if (!rejected_.contains(ceiling)) {
    missing_.push_back(ceiling);
  }
  const double value = known ? rates_.at(ceiling).value : assumed;
  const std::string number =
      value < 1e4 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
  note(known, fmt::format("{} {} {}", ceiling, number, unit));
  used_rates_.push_back({ceiling, value, std::string(unit), known});
  return value * 1e9;
}

double Machine::use_rate(const std::string& ceiling, std::optional<double> measured) {
  return use_rate(ceiling, measured ? *measured / 1e9 : assumed_rate(ceiling, backend_), "GB/s");
}

bool Machine::knows(const std::string& ceiling) const {
  const auto found = rates_.find(ceiling);
  return found != rates_.end() && !rejected_.contains(ceiling);
}

double Machine::limited(double value, const std::string& ceiling, std::string_view unit) {
  return knows(ceiling) ? std::min(value, use_rate(ceiling, value, unit)) : value;
}

double Machine::use_gather_rate(std::optional<double> measured) {
  const bool between_hosts = ranks() > ranks_on_host();
  if (between_hosts && ranks_on_host_of_result_ == 0)
    reject("all_gather", "measured within one host");
  const double within = backend_ == Backend::host ? assumed_host_gather : assumed_gpu_gather;
  const double assumed = between_hosts ? std::min(within, assumed_network_gather) : within;
  return use_rate("all_gather", measured ? *measured / 1e9 : assumed,
                  between_hosts ? "GB/s between hosts" : "GB/s");
}

void Machine::add_missing(const std::vector<std::string>& ceilings) {
  const auto was_rejected = [&](const std::string& each) { return rejected_.contains(each); };
  if (std::ranges::any_of(ceilings, was_rejected)) return;
  missing_.push_back(join(ceilings, " or "));
}

std::uint64_t Machine::device_memory(const Options& options) {
  if (!options.is_auto("pipeline.gpu-memory")) return 0;  // the option sets the memory
  if (backend_ == Backend::host) {
    const std::uint64_t bytes = device::host::available_memory() / ranks_on_host();
    found_here_ =
        fmt::format("device memory {} ({})", format_size(bytes),
                    ranks_on_host() == 1
                        ? std::string("the free memory of this machine")
                        : fmt::format("1/{} of the free memory of this machine", ranks_on_host()));
    return bytes;
  }
  const std::uint64_t bytes = gpu_memory_.value_or(assumed_gpu_memory);
  note(gpu_memory_.has_value(), fmt::format("device memory {}", format_size(bytes)));
  return bytes;
}

unsigned Machine::threads() const {
  const auto cores = static_cast<std::uint64_t>(ranks::granted_cores());
  return static_cast<unsigned>(std::max<std::uint64_t>(1, cores / ranks_on_host()));
}

std::vector<std::string> Machine::lines() const {
  std::vector<std::string> lines{fmt::format(
      "backend: {}, {}", backend_ == Backend::host ? "host (CPUs)" : "cuda (GPUs)", why_backend_)};
  if (ranks() > 1) {
    const std::uint64_t hosts = ceil_div(ranks(), ranks_on_host());
    lines.push_back(fmt::format(
        "hosts: {}, with {}{}{}, {}", hosts, ranks() % ranks_on_host() == 0 ? "" : "up to ",
        counted(ranks_on_host(), "rank"), hosts == 1 ? "" : " each", planned_.why_hosts));
  }
  if (!measured_.empty()) {
    lines.push_back(fmt::format("measured per rank, in {}: {}", path_.string(), measured_));
  }
  if (!assumed_.empty()) {
    lines.push_back(fmt::format(
        "assumed per rank: {}{}", assumed_,
        path_.empty() ? "; for measured rates, pass the result of a run with --rates" : ""));
  }
  if (!found_here_.empty()) lines.push_back(fmt::format("found per rank: {}", found_here_));
  return lines;
}

void Machine::warn(Log& log) const {
  if (path_.empty() || (rejected_.empty() && missing_.empty())) return;
  std::vector<std::string> details;
  const auto add = [&](std::string_view what, const std::string& ceilings) {
    if (!ceilings.empty()) details.push_back(fmt::format("{}: {}", what, ceilings));
  };
  add("used", used_.empty() ? "nothing" : join(used_, ", "));
  for (const auto& [ceiling, why] : rejected_) {
    add("not used", fmt::format("{}, {}", ceiling, why));
  }
  std::vector<std::string> unused;
  for (const auto& [ceiling, rate] : rates_) {
    if (!ceilings_.contains(ceiling)) unused.push_back(ceiling);
  }
  add("no limit of this run", join(unused, ", "));
  add("missing", join(missing_, ", "));
  const std::string lacks =
      fmt::format("'{}', a result of {}, does not have", path_.string(), workload_);
  if (!planned_.backend.empty()) {  // a run, which has measured all rates
    log.warn(fmt::format("--rates: {} all rates of this run, which uses its own rates for the rest",
                         lacks),
             details);
    return;
  }
  const bool guessed = !main_.empty() && !knows(main_);
  log.warn(
      fmt::format("--rates: {} {}, so {} assumed: pass the result of a more similar run", lacks,
                  guessed ? main_ : "all rates of this run", guessed ? "it is" : "the others are"),
      details);
}

void Machine::read(const io::ResultReader& file) {
  workload_ = file.text("/config", "run.workload");
  if (!is_plain(workload_)) fail(fmt::format("its workload is {}", excerpt(workload_)));
  read_rates(file);
  read_topology(file);
}

void Machine::read_rates(const io::ResultReader& file) {
  const std::vector<Column> columns = file.columns(std::string(result::Ceiling::table));
  if (std::ranges::find(columns, "conditions", &Column::name) == columns.end()) {
    fail("its table /ceilings lacks the column 'conditions', as those of old versions do");
  }
  const std::vector<result::Ceiling> ceilings = result::read_ceilings(file);
  if (ceilings.empty() || ceilings.size() > max_ceilings) {
    fail(fmt::format("its table /ceilings has {} rows", ceilings.size()));
  }
  for (const result::Ceiling& each : ceilings) {
    if (!is_plain(each.name)) {
      fail(fmt::format("it has a ceiling with the name {}", excerpt(each.name)));
    }
    if (!(each.per_rank >= min_rate && each.per_rank <= max_rate)) {
      fail(fmt::format("its ceiling {} is {} (in 10^9 per second)", each.name, each.per_rank));
    }
    if (!rates_.emplace(each.name, Rate{each.per_rank, each.conditions, each.sizes}).second) {
      fail(fmt::format("it has the ceiling {} twice", each.name));
    }
  }
}

void Machine::read_topology(const io::ResultReader& file) {
  const auto ranks = result::read<result::Rank>(file);
  const auto count = static_cast<std::int64_t>(ranks.size());
  if (count == 0) fail("its table /topology/ranks has no rows");
  for (const result::Rank& each : ranks) {
    if (each.rank < 0 || each.rank >= count) {
      fail(fmt::format("it has the rank {} of {}", each.rank, count));
    }
  }
  const auto by_host = result::ranks_by_host(ranks);
  if (by_host.size() > 1) {
    ranks_on_host_of_result_ = std::ranges::max(by_host | std::views::values);
  }
  for (const result::Gpu& gpu : result::read<result::Gpu>(file)) {
    if (gpu.rank >= count) fail(fmt::format("it has a GPU of rank {} of {}", gpu.rank, count));
    if (gpu.rank < 0 || gpu.memory <= 0) continue;  // used by no rank, or of unknown size
    if (gpu.memory < min_memory || gpu.memory > max_memory) {
      fail(fmt::format("it has a GPU of {} bytes", gpu.memory));
    }
    gpu_memory_ =
        std::min(gpu_memory_.value_or(UINT64_MAX), static_cast<std::uint64_t>(gpu.memory));
  }
}

void Machine::fail(const std::string& what) const {
  throw UsageError(
      fmt::format("'{}' has implausible values ({}): name the result of a run of this program",
                  path_.string(), what));
}

void Machine::choose_backend(const std::string& requested) {
  if (requested != "auto") {
    backend_ = backend_named(requested);
    why_backend_ = "from device.backend";
  } else if (!path_.empty()) {
    backend_ = gpu_memory_ ? Backend::cuda : Backend::host;
    why_backend_ = "the backend of the result of --rates";
  } else {
    backend_ = built_with_cuda ? Backend::cuda : Backend::host;
    why_backend_ =
        built_with_cuda
            ? "since this program was built with CUDA; --device.backend host plans for CPUs"
            : "since this program was built without CUDA; --device.backend cuda plans for GPUs";
  }
  const auto measured = gpu_memory_ ? Backend::cuda : Backend::host;
  if (path_.empty() || backend_ == measured) return;
  const auto processors = [](Backend of) { return of == Backend::host ? "CPUs" : "GPUs"; };
  throw UsageError(fmt::format(
      "--rates: '{}' was measured on {}, but the run is planned for {} (device.backend "
      "is {}): pass a result of {}, or leave --rates out",
      path_.string(), processors(measured), processors(backend_), requested, processors(backend_)));
}

void Machine::reject(const std::string& ceiling, const std::string& why) {
  if (rates_.contains(ceiling)) rejected_.emplace(ceiling, why);
}

void Machine::reject_conditions(const std::string& ceiling, const std::string& then,
                                const std::string& now) {
  reject(ceiling, fmt::format("which was measured for {}, but this run has {}",
                              then.empty() ? "unknown conditions" : cut(then), now));
}

void Machine::note(bool known, const std::string& words) {
  std::string& list = known ? measured_ : assumed_;
  list += (list.empty() ? "" : ", ") + words;
}

}  // namespace shardstream::measure
