#include "experiments/ladders/ladder.hpp"

#include <filesystem>
#include <utility>

#include "experiments/formatted.hpp"

namespace shardstream::experiments::ladders {
namespace {

/// "reduction.cu:120", or "-" if the kernel is not in this catalogue.
std::string text_of(const SourceLine& place) {
  if (place.file == nullptr) return "-";
  return formatted("{}:{}", std::filesystem::path(place.file).filename().string(), place.line);
}

}  // namespace

Ladder::Ladder(Bench& bench, Gpu& gpu, std::vector<Column> varied, Column rate, double unit)
    : bench_(bench),
      gpu_(gpu),
      unit_(unit),
      rows_(columns_of(std::move(varied), std::move(rate)), {"time", ColumnType::real, "ms"},
            Rows::of_kernels) {}

void Ladder::begin(std::vector<Cell> varied, double useful, double reference) {
  continue_with(std::move(varied), reference);
  at_.useful = useful;
  at_.first = 0;
  at_.before = 0;
}

void Ladder::continue_with(std::vector<Cell> varied, double reference) {
  at_.varied = std::move(varied);
  at_.reference = reference;
}

Measured Ladder::climb(const Rung& rung, const std::function<void()>& enqueue,
                       const std::function<bool()>& is_right) {
  enqueue();
  gpu_.synchronize();
  bench_.verify(is_right(), rung.name);
  const Measured seconds = gpu_.time(enqueue).seconds;
  const double rate = at_.useful / seconds.value / unit_;
  const double factor = at_.before > 0 ? at_.before / seconds.value : 1;
  at_.before = seconds.value;
  if (at_.first <= 0) at_.first = seconds.value;
  const double total_factor = at_.first / seconds.value;
  std::vector<Cell> cells = at_.varied;
  cells.insert(cells.end(), {rung.name, text_of(rung.place), factor, total_factor, rate});
  rows_.add(std::move(cells), seconds.times(1e3), rate / at_.reference, rung.remark, rung.work,
            seconds.value);
  return seconds;
}

}  // namespace shardstream::experiments::ladders
