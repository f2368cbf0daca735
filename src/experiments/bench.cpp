#include "experiments/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "core/error.hpp"
#include "core/statistics.hpp"
#include "core/units.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::experiments {
namespace {

std::vector<Column> columns_of(std::vector<Column> varied, Column figure, Rows rows) {
  varied.push_back(std::move(figure));
  varied.insert(
      varied.end(),
      {{"ci_lo", ColumnType::real}, {"ci_hi", ColumnType::real}, {"share", ColumnType::real}});
  if (rows == Rows::of_kernels) {
    varied.insert(varied.end(),
                  {{"operations", ColumnType::real, "Gop"}, {"bytes", ColumnType::real, "MB"}});
  }
  varied.push_back({"remark", ColumnType::text});
  return varied;
}

std::vector<Cell> cells_of(std::vector<Cell> varied, std::initializer_list<double> numbers,
                           std::string remark) {
  for (const double number : numbers) varied.emplace_back(number);
  varied.emplace_back(std::move(remark));
  return varied;
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

Measured Bench::repeat(const std::function<double()>& call) {
  const measure::Sampling& policy = setting_.sampling;
  for (std::uint64_t i = 0; i < policy.warmup; ++i) (void)call();
  std::vector<double> samples;
  const auto begin = Clock::now();
  while (true) {
    samples.push_back(call());
    setting_.heartbeat.move();
    if (const auto end = measure::end_of_sampling(samples, seconds_since(begin), policy)) {
      unconverged_ += *end == measure::Convergence::unconverged ? 1 : 0;
      const Summary summary = summarize(std::move(samples));
      return {summary.median, summary.ci_lo, summary.ci_hi};
    }
  }
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
  const auto part = [](double share, std::uint64_t memory) {
    return static_cast<std::uint64_t>(share * static_cast<double>(memory));
  };
  const auto& resources = setting_.resources;
  const std::uint64_t on_device = part(room.of_device, setting_.memory);
  const std::uint64_t on_host =
      room.of_host > 0 ? part(room.of_host, resources.host_memory / resources.ranks_on_host)
                       : on_device;
  const std::uint64_t fits = std::min(on_device, on_host);
  if (!setting_.options.is_default(key)) {
    const std::uint64_t given = setting_.options.bytes(key);
    if (given <= fits) return given;
    throw UsageError(fmt::format(
        "{}: {} is too large for the {} memory of this rank: choose at most {}", key,
        format_size(given), on_host < on_device ? "host" : "device", whole_units(fits)));
  }
  std::uint64_t size = usual;
  while (size > fits && size > smallest) size /= 2;
  if (size < usual) {
    note(fmt::format("{} is {}, since {} does not fit.", key, format_size(size),
                     format_size(usual)));
  }
  return size;
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
  if (!is_right) throw Unverified(fmt::format("{}: the result is wrong", what));
}

Measurements::Measurements(std::vector<Column> varied, Column figure, Rows rows)
    : table_("rows", columns_of(std::move(varied), std::move(figure), rows)) {}

void Measurements::add(std::vector<Cell> varied, const Measured& figure, double share,
                       std::string remark) {
  table_.add(
      cells_of(std::move(varied), {figure.value, figure.lo, figure.hi, share}, std::move(remark)));
}

void Measurements::add(std::vector<Cell> varied, const Measured& figure, double share,
                       std::string remark, const Work& work) {
  table_.add(
      cells_of(std::move(varied),
               {figure.value, figure.lo, figure.hi, share, work.operations / 1e9, work.bytes / 1e6},
               std::move(remark)));
}

}  // namespace shardstream::experiments
