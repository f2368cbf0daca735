#include "experiments/bench.hpp"

#include <fmt/format.h>

#include <chrono>

#include "core/error.hpp"
#include "core/statistics.hpp"
#include "core/units.hpp"

namespace shardstream::experiments {
namespace {

std::vector<Column> columns_of(std::vector<Column> varied, Column figure) {
  varied.push_back(std::move(figure));
  varied.insert(varied.end(), {{"ci_lo", ColumnType::real},
                               {"ci_hi", ColumnType::real},
                               {"share", ColumnType::real},
                               {"remark", ColumnType::text}});
  return varied;
}

}  // namespace

Timing timing_of(std::vector<double> seconds, measure::Convergence convergence) {
  const Summary summary = summarize(std::move(seconds));
  return {{summary.median, summary.ci_lo, summary.ci_hi},
          convergence != measure::Convergence::unconverged};
}

Timing sample_here(const measure::Sampling& policy, launch::Heartbeat& heartbeat,
                   const std::function<double()>& call) {
  using Clock = std::chrono::steady_clock;
  for (std::uint64_t i = 0; i < policy.warmup; ++i) (void)call();
  std::vector<double> seconds;
  const auto begin = Clock::now();
  while (true) {
    seconds.push_back(call());
    heartbeat.move();
    const std::chrono::duration<double> elapsed = Clock::now() - begin;
    if (const auto end = measure::stop(seconds, elapsed.count(), policy)) {
      return timing_of(std::move(seconds), *end);
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

std::uint64_t Bench::bytes(std::string_view key, double share) const {
  const std::uint64_t wanted = setting_.options.bytes(key);
  const auto max = static_cast<std::uint64_t>(share * static_cast<double>(setting_.memory));
  if (wanted <= max) return wanted;
  throw Error(
      fmt::format("{}: {} is more than the experiment may use of the device's memory ({}): "
                  "choose a smaller size",
                  key, format_size(wanted), format_size(max)));
}

double Bench::ceiling(std::string_view name) const {
  const auto found = setting_.ceilings.find(std::string(name));
  expect(found != setting_.ceilings.end(), "an experiment asks for ceilings that it needs");
  return found->second;
}

void Bench::verify(bool is_right, std::string_view what) const {
  if (!is_right) throw Unverified(fmt::format("{}: the answer is wrong", what));
}

Measurements::Measurements(std::vector<Column> varied, Column figure)
    : table_("rows", columns_of(std::move(varied), std::move(figure))) {}

void Measurements::add(std::vector<Cell> varied, const Estimate& figure, double share,
                       std::string remark) {
  for (const double number : {figure.value, figure.lo, figure.hi, share}) {
    varied.emplace_back(number);
  }
  varied.emplace_back(std::move(remark));
  table_.add(std::move(varied));
}

}  // namespace shardstream::experiments
