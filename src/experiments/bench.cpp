#include "experiments/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "core/error.hpp"
#include "core/statistics.hpp"
#include "core/units.hpp"
#include "experiments/endings.hpp"
#include "ranks/session.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::experiments {
namespace {

std::vector<Column> columns_of(std::vector<Column> varied, Column figure, Rows rows) {
  varied.push_back(std::move(figure));
  varied.insert(
      varied.end(),
      {{"ci_lo", ColumnType::real}, {"ci_hi", ColumnType::real}, {"share", ColumnType::real}});
  if (rows == Rows::of_kernels) {
    varied.insert(varied.end(), {{"operations", ColumnType::real, "Gop"},
                                 {"bytes", ColumnType::real, "MB"},
                                 {"duration", ColumnType::real, "ms"},
                                 {"arithmetic", ColumnType::text},
                                 {"distinct", ColumnType::real, "MB"},
                                 {"shared_bytes", ColumnType::real, "MB"},
                                 {"instructions", ColumnType::real, "1e6"}});
  }
  varied.push_back({"remark", ColumnType::text});
  std::set<std::string> names;
  for (const Column& column : varied) names.insert(column.name);
  expect(names.size() == varied.size(), "the columns of a table have different names");
  return varied;
}

/// `varied`, followed by the measured value, its interval and its share.
std::vector<Cell> cells_of(std::vector<Cell> varied, const Measured& figure, double share) {
  varied.insert(varied.end(), {figure.value, figure.lo, figure.hi, share});
  return varied;
}

Measured measured(std::vector<double> seconds) {
  const Summary summary = summarize(std::move(seconds));
  return {summary.median, summary.ci_lo, summary.ci_hi};
}

/// `bytes` rounded down to a size that can be given as an option: "34 GiB", "1945 MiB".
std::string whole_units(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> units = {"B", "KiB", "MiB", "GiB", "TiB"};
  constexpr std::uint64_t large = 10 * 1024;
  std::size_t unit = 0;
  for (; bytes >= large && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return fmt::format("{} {}", bytes, units[unit]);
}

}  // namespace

const Together& Bench::together() const {
  expect(setting_.together.has_value(), "only an experiment of all ranks communicates");
  return *setting_.together;
}

void Bench::agree(const std::function<void()>& step) const {
  if (!setting_.together) return step();
  experiments::agree(setting_.together->session, step);
}

double Bench::max_of_ranks(double value) const {
  return setting_.together ? setting_.together->session.max(value) : value;
}

/// The seconds of one call on each rank that measures together, or on this rank alone.
std::vector<double> Bench::call_in_step(const std::function<double()>& call) const {
  if (!setting_.together) return {call()};
  const ranks::Session& session = setting_.together->session;
  session.barrier();
  return session.gather(std::vector{call()});
}

Timing Bench::sample(const std::function<double()>& call, double part) {
  measure::Sampling policy = setting_.sampling;
  policy.max_time *= part;
  for (std::uint64_t i = 0; i < policy.warmup; ++i) (void)call_in_step(call);
  std::vector<double> seconds;
  std::vector<std::vector<double>> of_ranks;
  std::optional<measure::Convergence> end;
  const auto begin = Clock::now();
  while (!end) {
    const std::vector<double> all = call_in_step(call);
    seconds.push_back(*std::ranges::max_element(all));
    of_ranks.resize(all.size());
    for (std::size_t rank = 0; rank < all.size(); ++rank) of_ranks[rank].push_back(all[rank]);
    setting_.heartbeat.move();
    double elapsed = seconds_since(begin);
    if (setting_.together) elapsed = setting_.together->session.gather(std::vector{elapsed})[0];
    end = measure::end_of_sampling(seconds, elapsed, policy);
  }
  // Timings of all ranks count once.
  const bool counts = !setting_.together || setting_.rank == 0;
  unconverged_ += counts && *end == measure::Convergence::unconverged ? 1 : 0;
  Timing timing{measured(std::move(seconds))};
  if (!setting_.together) return timing;
  for (std::vector<double>& rank : of_ranks) timing.by_rank.push_back(measured(std::move(rank)));
  return timing;
}

std::vector<std::uint64_t> sizes_up_to(std::uint64_t first, std::uint64_t last,
                                       std::uint64_t factor) {
  expect(first > 0 && factor > 1, "sizes grow");
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = first; size < last; size *= factor) sizes.push_back(size);
  sizes.push_back(last);
  return sizes;
}

std::uint64_t Bench::bytes(std::string_view key, Room room) {
  return bytes(key, room, setting_.options.bytes(key));
}

std::uint64_t Bench::bytes(std::string_view key, Room room, std::uint64_t usual) {
  constexpr std::uint64_t smallest = std::uint64_t{1} << 20;
  // The smallest memory of the ranks that measure together, so that all of them use the same size.
  const auto part = [&](double share, std::uint64_t memory) {
    if (share == 0) return std::numeric_limits<std::uint64_t>::max();
    return static_cast<std::uint64_t>(-max_of_ranks(-share * static_cast<double>(memory)));
  };
  const auto& resources = setting_.resources;
  const std::uint64_t on_device = part(room.of_device, setting_.memory);
  const std::uint64_t on_host = part(room.of_host, resources.host_memory / resources.ranks_on_host);
  const std::uint64_t fits = std::min(on_device, on_host);
  if (!setting_.options.is_default(key)) {
    const std::uint64_t given = setting_.options.bytes(key);
    if (given <= fits) return given;
    agree([&] {
      throw UsageError(fmt::format(
          "{}: {} is too large for the {} memory of this rank: choose at most {}", key,
          format_size(given), on_host < on_device ? "host" : "device", whole_units(fits)));
    });
  }
  std::uint64_t size = usual;
  while (size > fits && size > smallest) size /= 2;
  if (size < usual) {
    note(fmt::format("{} is {}, since {} does not fit.", key, format_size(size),
                     format_size(usual)));
  }
  return size;
}

std::uint64_t Bench::edge(std::string_view key, std::uint64_t quick, std::uint64_t granule,
                          double bytes, double room) {
  const bool is_default = setting_.options.is_default(key);
  const std::uint64_t n = is_default && is_quick() ? quick : setting_.options.count(key);
  if (n % granule != 0) {
    throw UsageError(fmt::format("{}: {} is no multiple of {}: choose {}", key, n, granule,
                                 (n / granule + 1) * granule));
  }
  const auto fits =
      static_cast<std::uint64_t>(std::sqrt(std::max(0.0, room) / bytes)) / granule * granule;
  if (n <= fits) return n;
  if (!is_default || fits == 0) {
    throw UsageError(fmt::format("{}: matrices of {} x {} do not fit in memory: choose at most {}",
                                 key, n, n, fits));
  }
  note(fmt::format("{} is {}, since {} does not fit.", key, fits, n));
  return fits;
}

std::uint64_t Bench::fitting(std::uint64_t usual, double of_device) const {
  const double room = of_device * static_cast<double>(setting_.memory);
  while (static_cast<double>(usual) > room && usual > 1) usual /= 2;
  return usual;
}

double Bench::ceiling(std::string_view name) const {
  const auto found = setting_.ceilings.find(std::string(name));
  expect(found != setting_.ceilings.end(), "an experiment uses only ceilings that its needs name");
  return found->second;
}

void Bench::verify(bool is_right, std::string_view what) const {
  agree([&] {
    if (!is_right) throw Unverified(fmt::format("{}: the result is wrong", what));
  });
}

Measurements::Measurements(std::vector<Column> varied, Column figure, Rows rows)
    : table_("rows", columns_of(std::move(varied), std::move(figure), rows)) {}

void Measurements::add(std::vector<Cell> varied, const Measured& figure, double share,
                       std::string remark) {
  std::vector<Cell> cells = cells_of(std::move(varied), figure, share);
  cells.emplace_back(std::move(remark));
  table_.add(std::move(cells));
}

void Measurements::add(std::vector<Cell> varied, const Measured& figure, double share,
                       std::string remark, const Work& work, double seconds) {
  std::vector<Cell> cells = cells_of(std::move(varied), figure, share);
  cells.insert(cells.end(), {work.operations / 1e9, work.bytes / 1e6, seconds * 1e3,
                             std::string(work.arithmetic), work.distinct / 1e6, work.shared / 1e6,
                             work.instructions / 1e6, std::move(remark)});
  table_.add(std::move(cells));
}

}  // namespace shardstream::experiments
