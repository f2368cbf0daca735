#include "cli/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "device/host/memory.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::cli {
namespace {

/// About an H100's. Of a host this machine tells.
constexpr std::uint64_t assumed_gpu_memory = 80'000'000'000;
constexpr double assumed_gpu_gather = 200, assumed_host_gather = 5;  // GB/s, within a host
constexpr double assumed_network_gather = 20;                        // GB/s of a rank

// What a result can say, with much room.
constexpr std::size_t max_ceilings = 1000;
constexpr double min_rate = 1e-12, max_rate = 1e9;  // 10^9 bytes or operations a second
constexpr std::int64_t max_edge = 1 << 20;          // of a tile
constexpr std::int64_t min_memory = 1LL << 26, max_memory = 1LL << 50;

/// Names are listed in warnings.
bool is_ceiling(std::string_view name) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789_";
  return !name.empty() && name.size() <= 64 && name.find_first_not_of(letters) == name.npos;
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
  for (const std::string& each : kinds) {
    text += fmt::format("{}{}", text.empty() ? "" : " and ", each);
  }
  return fmt::format("{} in {}{}{}", text, precision, mode == "pageable" ? ", from memory" : "",
                     normalized ? ", to be normalized" : "");
}

/// For a warning: a file's text may be of any length.
std::string cut(const std::string& text) {
  constexpr std::size_t max = 300;
  return text.size() <= max ? text : text.substr(0, max) + "...";
}

std::string readers_of(const io::ResultReader& result, const std::string& workload) {
  const auto config = [&](const char* key) { return result.text("/config", key); };
  const auto kind_in = [&](const char* group) {
    return kind(result.text(group, "type"), result.text(group, "access"));
  };
  if (workload == "reduce") return kind_in("/input");
  std::set<std::string> kinds;
  for (const char* group : {"/input/a", "/input/b"}) {
    if (!result.text(group, "type").empty()) kinds.insert(kind_in(group));
  }
  const bool is_gram = workload == "gram";
  return readers(config("gemm.precision"), kinds, config("pipeline.mode"),
                 is_gram && (config("gram.center") != "false" || config("gram.scale") != "false"));
}

/// "256 x 256 x 1024"
std::string name_of(const gemm::Tile& tile) {
  return fmt::format("{} x {} x {}", tile.m, tile.n, tile.k);
}

/// Whether products of such tiles are about as fast: neither edges nor multiplications differ by
/// more than a factor of two. Multiplications alone would take a slim tile for a square one.
bool alike(const gemm::Tile& one, const gemm::Tile& other) {
  const auto near = [](std::uint64_t x, std::uint64_t y) { return x <= 2 * y && y <= 2 * x; };
  return near(one.m, other.m) && near(one.n, other.n) && near(one.k, other.k) &&
         near(one.m * one.n * one.k, other.m * other.n * other.k);
}

}  // namespace

std::string readers_of(const workloads::GemmOperands& operands, const Options& options) {
  std::set<std::string> kinds;
  for (const auto* matrix : {operands.a.get(), operands.b.get()}) {
    kinds.insert(kind(name_of(matrix->type()), matrix->access()));
  }
  return readers(name_of(operands.precision), kinds, options.text("pipeline.mode"),
                 operands.normalizes());
}

std::string readers_of(const io::Source& source) {
  return kind(name_of(source.type()), source.access());
}

Machine::Machine(const Options& options, const std::filesystem::path& result) : result_(result) {
  if (!result.empty()) {
    try {
      read(io::ResultReader(result));
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("--rates: {}", error.what()), error.where());
    }
  }
  choose_backend(options.text("device.backend"));
}

void Machine::go_by(const std::set<std::string>& ceilings) {
  for (const auto& [ceiling, rate] : rates_) {
    if (!ceilings.contains(ceiling)) unused_.push_back(ceiling);
  }
}

void Machine::compare_readers(const std::string& ceiling, const std::string& now) {
  if (!rates_.contains(ceiling)) return;
  if (readers_ != now) {
    refuse(ceiling, fmt::format("which was of {} and is of {}", cut(readers_), now));
  }
}

void Machine::compare_tile(const std::string& ceiling, const gemm::Tile& now) {
  main_ = ceiling;
  if (!rates_.contains(ceiling)) return;
  if (!tile_) {
    refuse(ceiling, fmt::format("of which it does not tell the tile, here {}", name_of(now)));
  } else if (!alike(*tile_, now)) {
    refuse(ceiling,
           fmt::format("which was of tiles of {} and is of {}", name_of(*tile_), name_of(now)));
  }
}

double Machine::rate(const std::string& ceiling, double assumed, std::string_view unit) {
  const bool known = knows(ceiling);
  if (known) {
    taken_.push_back(ceiling);
  } else if (!refused_.contains(ceiling)) {
    missing_.push_back(ceiling);
  }
  const double value = known ? rates_.at(ceiling) : assumed;
  const std::string number =
      value < 1e4 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
  note(known, fmt::format("{} {} {}", ceiling, number, unit));
  return value * 1e9;
}

bool Machine::knows(const std::string& ceiling) const {
  const auto found = rates_.find(ceiling);
  return found != rates_.end() && !refused_.contains(ceiling);
}

double Machine::limited(double value, const std::string& ceiling, std::string_view unit) {
  return knows(ceiling) ? std::min(value, rate(ceiling, value, unit)) : value;
}

double Machine::gather_rate(bool between_hosts) {
  if (between_hosts && !several_hosts_) refuse("all_gather", "within a host");
  const double here = on_host_ ? assumed_host_gather : assumed_gpu_gather;
  return rate("all_gather", between_hosts ? std::min(here, assumed_network_gather) : here,
              between_hosts ? "GB/s between hosts" : "GB/s");
}

void Machine::miss(const std::vector<std::string>& ceilings) {
  const auto was_refused = [&](const std::string& each) { return refused_.contains(each); };
  if (std::ranges::any_of(ceilings, was_refused)) return;
  missing_.push_back(join(std::vector<std::string_view>(ceilings.begin(), ceilings.end()), " or "));
}

std::uint64_t Machine::device_memory(const Options& options, std::uint64_t ranks_on_host) {
  if (!options.is_auto("pipeline.gpu-memory")) return 0;  // the option says what may be used
  if (on_host_) {
    const std::uint64_t bytes = device::host::available_memory() / ranks_on_host;
    found_here_ = fmt::format(
        "device memory {} (of this machine's, {})", format_size(bytes),
        ranks_on_host == 1 ? "all that is free" : fmt::format("one of {} shares", ranks_on_host));
    return bytes;
  }
  const std::uint64_t bytes = gpu_memory_.value_or(assumed_gpu_memory);
  note(gpu_memory_.has_value(), fmt::format("device memory {}", format_size(bytes)));
  return bytes;
}

std::vector<std::string> Machine::lines() const {
  std::vector<std::string> lines{
      fmt::format("backend: {}, {}", on_host_ ? "host (CPUs)" : "cuda (GPUs)", why_backend_)};
  if (!measured_.empty()) {
    lines.push_back(fmt::format("measured of a rank, in {}: {}", result_.string(), measured_));
  }
  if (!assumed_.empty()) {
    lines.push_back(fmt::format(
        "assumed of a rank: {}{}", assumed_,
        result_.empty() ? "; a run measures its machine: pass its result with --rates" : ""));
  }
  if (!found_here_.empty()) lines.push_back(fmt::format("taken of a rank: {}", found_here_));
  return lines;
}

std::string Machine::warning(const std::string& workload) const {
  const bool akin = (workload == "reduce") == (workload_ == "reduce");
  if (result_.empty() || (akin && refused_.empty() && missing_.empty())) return {};
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
  const bool guessed = !main_.empty() && !knows(main_);
  return fmt::format(
      "--rates: {}'{}' is a result of {} and tells only in part of this run ({}): pass a result of "
      "a run more like it, or take the rest as assumed",
      guessed ? fmt::format("{} is assumed, and so is the prediction: ", main_) : "",
      result_.string(), workload_, text);
}

void Machine::read(const io::ResultReader& result) {
  workload_ = result.text("/config", "run.workload");
  if (workload_ != "reduce" && workload_ != "gemm" && workload_ != "gram") {
    fail(fmt::format("its workload is {}", excerpt(workload_)));
  }
  readers_ = readers_of(result, workload_);
  read_rates(result);
  read_topology(result);
  std::array<std::uint64_t, 3> edges{};
  std::ranges::transform(std::array{"tile_m", "tile_n", "tile_k"}, edges.begin(),
                         [&](const char* name) {
                           const auto edge = result.integer("/results", name);
                           if (edge && (*edge < 1 || *edge > max_edge)) {
                             fail(fmt::format("its {} is {}", name, *edge));
                           }
                           return static_cast<std::uint64_t>(edge.value_or(0));
                         });
  if (std::ranges::find(edges, 0U) == edges.end()) tile_ = {edges[0], edges[1], edges[2]};
}

void Machine::read_rates(const io::ResultReader& result) {
  const Table table = result.table(
      "/ceilings", {{"ceiling", ColumnType::text}, {"per_rank_min", ColumnType::real}});
  if (table.rows().empty() || table.rows().size() > max_ceilings) {
    fail(fmt::format("its table /ceilings has {} rows", table.rows().size()));
  }
  for (const auto& row : table.rows()) {
    const auto& name = std::get<std::string>(row[0]);
    const double rate = std::get<double>(row[1]);
    if (!is_ceiling(name)) fail(fmt::format("it has a ceiling of the name {}", excerpt(name)));
    if (!(rate >= min_rate && rate <= max_rate)) {
      fail(fmt::format("its ceiling {} is {} of 10^9 a second", name, rate));
    }
    if (!rates_.emplace(name, rate).second) fail(fmt::format("it has the ceiling {} twice", name));
  }
}

void Machine::read_topology(const io::ResultReader& result) {
  const Table ranks =
      result.table("/topology/ranks", {{"rank", ColumnType::integer}, {"host", ColumnType::text}});
  const auto count = static_cast<std::int64_t>(ranks.rows().size());
  if (count == 0) fail("its table /topology/ranks has no rows");
  std::set<std::string> hosts;
  for (const auto& row : ranks.rows()) {
    const auto rank = std::get<std::int64_t>(row[0]);
    if (rank < 0 || rank >= count) fail(fmt::format("it has the rank {} of {}", rank, count));
    hosts.insert(std::get<std::string>(row[1]));
  }
  several_hosts_ = hosts.size() > 1;
  const Table gpus = result.table("/topology/gpus",
                                  {{"rank", ColumnType::integer}, {"memory", ColumnType::integer}});
  for (const auto& row : gpus.rows()) {
    const auto rank = std::get<std::int64_t>(row[0]), bytes = std::get<std::int64_t>(row[1]);
    if (rank >= count) fail(fmt::format("it has a GPU of rank {} of {}", rank, count));
    if (rank < 0 || bytes <= 0) continue;  // no rank's, or not known
    if (bytes < min_memory || bytes > max_memory) {
      fail(fmt::format("it has a GPU of {} bytes", bytes));
    }
    gpu_memory_ = std::min(gpu_memory_.value_or(UINT64_MAX), static_cast<std::uint64_t>(bytes));
  }
}

void Machine::fail(const std::string& what) const {
  throw UsageError(
      fmt::format("'{}' has values that no run can have measured ({}): name the result of a run of "
                  "this program",
                  result_.string(), what));
}

void Machine::choose_backend(const std::string& wish) {
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

void Machine::refuse(const std::string& ceiling, const std::string& why) {
  if (rates_.contains(ceiling)) refused_.emplace(ceiling, why);
}

void Machine::note(bool known, const std::string& words) {
  std::string& list = known ? measured_ : assumed_;
  list += (list.empty() ? "" : ", ") + words;
}

}  // namespace shardstream::cli
