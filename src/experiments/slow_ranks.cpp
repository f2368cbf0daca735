#include "experiments/slow_ranks.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <string_view>

#include "core/statistics.hpp"

namespace shardstream::experiments {
namespace {

/// The median. If two values are in the middle, the slower one: a rank that is faster than all
/// others does not make them slow.
double usual_of(std::vector<double> figures, bool more_is_better) {
  std::ranges::sort(figures);
  return figures[more_is_better ? (figures.size() - 1) / 2 : figures.size() / 2];
}

}  // namespace

std::vector<SlowRank> slow_ranks(const Table& gathered, const Figure& figure, std::size_t ranks) {
  constexpr double relevant = 0.03;
  const auto all = gathered.rows();
  const auto rows = static_cast<std::size_t>(std::ranges::size(all));
  const std::size_t cases = rows / ranks;
  if (!figure.is_rated || ranks < 2 || cases == 0 || cases * ranks != rows) return {};
  for (std::size_t i = 0; i < rows; ++i) {
    const auto rank = all[static_cast<std::ptrdiff_t>(i)].get<std::int64_t>("rank");
    if (static_cast<std::size_t>(rank) != i / cases) return {};
  }
  const auto at = [&](std::size_t rank, std::size_t row, std::string_view column) {
    return all[static_cast<std::ptrdiff_t>(rank * cases + row)].get<double>(column);
  };
  std::vector<SlowRank> found;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::size_t slower = 0;
    std::vector<double> ratios;
    for (std::size_t row = 0; row < cases; ++row) {
      std::vector<double> others;
      for (std::size_t other = 0; other < ranks; ++other) {
        if (other != rank) others.push_back(at(other, row, figure.y));
      }
      const double usual = usual_of(others, figure.more_is_better);
      const double nearer = at(rank, row, figure.more_is_better ? "ci_hi" : "ci_lo");
      const double value = std::isnan(nearer) ? at(rank, row, figure.y) : nearer;
      const double ratio = figure.more_is_better ? value / usual : usual / value;
      ratios.push_back(ratio);
      slower += ratio < 1 - relevant ? 1 : 0;
    }
    if (2 * slower >= cases) found.push_back({rank, median(ratios), cases});
  }
  return found;
}

}  // namespace shardstream::experiments
