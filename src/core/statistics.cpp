#include "core/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/error.hpp"

namespace shardstream {
namespace {

/// The quantile `q` of sorted samples, linear between neighbours.
double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

/// The largest rank l, counted from 1, at which the interval of Summary may start; 0 if there is no
/// interval.
std::size_t interval_rank(std::size_t n) {
  double term = std::pow(0.5, static_cast<double>(n));  // P[Bin(n, 1/2) = k]
  double tail = 0;                                      // P[Bin(n, 1/2) <= k]
  std::size_t rank = 0;
  for (std::size_t k = 0; k < n; ++k) {
    tail += term;
    if (1 - 2 * tail < 0.95) break;
    rank = k + 1;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
  }
  return rank;
}

}  // namespace

Summary summarize(std::vector<double> samples) {
  expect(!samples.empty(), "a summary needs a sample");
  std::sort(samples.begin(), samples.end());
  Summary summary;
  summary.n = samples.size();
  summary.median = quantile(samples, 0.5);
  summary.min = samples.front();
  summary.q1 = quantile(samples, 0.25);
  summary.q3 = quantile(samples, 0.75);
  summary.max = samples.back();
  summary.ci_lo = summary.ci_hi = std::numeric_limits<double>::quiet_NaN();
  if (const std::size_t rank = interval_rank(samples.size()); rank > 0) {
    summary.ci_lo = samples[rank - 1];
    summary.ci_hi = samples[samples.size() - rank];
  }
  return summary;
}

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  return summarize(std::move(values)).median;
}

double autocorrelation(std::span<const double> samples) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  if (samples.size() < 3) return unknown;
  // The sum of squares may not be 0 for equal samples, since their mean may be rounded.
  const auto [min, max] = std::ranges::minmax_element(samples);
  if (*min == *max) return unknown;
  const double mean =
      std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
  double squares = 0, products = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    squares += (samples[i] - mean) * (samples[i] - mean);
    if (i > 0) products += (samples[i - 1] - mean) * (samples[i] - mean);
  }
  return products / squares;
}

}  // namespace shardstream
