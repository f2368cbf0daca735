#include "study/statistics/scatter.hpp"

#include <algorithm>
#include <cmath>

#include "study/statistics/distributions.hpp"

namespace shardstream::study {
namespace {

/// The degrees of freedom that the fitted variance counts as.
constexpr double fitted_df = 0.3;

/// The probability, before any measurement, that the variance grows with the ranks.
constexpr double prior_of_growth = 0.4;

constexpr double min_variance = min_scatter * min_scatter;

}  // namespace

Scatter::Scatter(std::span<const SizeNoise> sizes, Trend trend) {
  for (const SizeNoise& size : sizes) sizes_.push_back({.ranks = size.ranks, .own = size.own});
  mark(sizes);
  pool(sizes);
  if (trend == Trend::possible) fit_trend(sizes);
  for (SizeScatter& size : sizes_) {
    if (size.is_marked) continue;
    const double model = fitted(size.ranks), df = size.own.df, all = df + fitted_df;
    if (df > 0) size.own.variance = std::max(size.own.variance, model / (2 * df)) * df / all;
    size.shared = model * fitted_df / all;
  }
}

void Scatter::mark(std::span<const SizeNoise> sizes) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    double squares = 0, df = 0;
    for (std::size_t j = 0; j < sizes.size(); ++j) {
      if (j == i) continue;
      squares += sizes[j].own.df * sizes[j].own.variance;
      df += sizes[j].own.df;
    }
    const Noise& own = sizes[i].own;
    if (own.df == 0 || df == 0) continue;
    const double f = own.variance / std::max(squares / df, min_variance);
    sizes_[i].is_marked =
        f >= 9 && fisher_f_p_value(f, own.df, df) < 0.01 / static_cast<double>(sizes.size());
  }
}

void Scatter::pool(std::span<const SizeNoise> sizes) {
  double squares = 0, df = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes_[i].is_marked) continue;
    squares += sizes[i].own.df * sizes[i].own.variance;
    df += sizes[i].own.df;
  }
  if (df > 0) pooled_ = {squares / df, df};
}

/// The likelihood of normal log times, with the unknown scale integrated out, is proportional to
/// the product of r_i^(-d_i / 2), times (sum of d_i v_i / r_i)^(-d / 2), if the variance at size i
/// is r_i times that at the smallest size.
void Scatter::fit_trend(std::span<const SizeNoise> sizes) {
  if (pooled_.df == 0) return;
  double squares = 0, logs = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes_[i].is_marked) continue;
    const double ratio = sizes[i].ranks / sizes.front().ranks;
    squares += sizes[i].own.df * sizes[i].own.variance / ratio;
    logs += sizes[i].own.df * std::log(ratio);
  }
  of_smallest_ = squares / pooled_.df;
  const auto log_scale = [&](double variance) {
    return pooled_.df * std::log(std::max(variance, min_variance));
  };
  const double log_odds = (log_scale(pooled_.variance) - log_scale(of_smallest_) - logs) / 2;
  growing_ = 1 / (1 + (1 - prior_of_growth) / prior_of_growth * std::exp(-log_odds));
}

double Scatter::fitted(double ranks) const {
  const double growing = of_smallest_ * ranks / sizes_.front().ranks;
  return (1 - growing_) * pooled_.variance + growing_ * growing;
}

Noise Scatter::at(std::size_t size) const {
  std::vector<double> weights(sizes_.size());
  weights[size] = 1;
  return of(weights);
}

double Scatter::fitted_at(std::size_t size) const {
  const SizeScatter& part = sizes_[size];
  return std::max(min_variance, part.is_marked ? part.own.variance : fitted(part.ranks));
}

Noise Scatter::of(std::span<const double> weights) const {
  if (pooled_.df == 0) return {};
  double shared = 0, total = 0, max_df = pooled_.df;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    shared += weights[i] * sizes_[i].shared;
    total += weights[i] * sizes_[i].own.variance;
    if (sizes_[i].is_marked && weights[i] > 0) max_df += sizes_[i].own.df;
  }
  total += shared;
  if (total == 0 || !std::isfinite(total)) return {total, pooled_.df};
  double uncertainty = std::pow(shared / total, 2) / pooled_.df;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const Noise& own = sizes_[i].own;
    if (own.df > 0) uncertainty += std::pow(weights[i] * own.variance / total, 2) / own.df;
  }
  // The pooled variance contains that of each size, so their degrees of freedom do not add up.
  return {total, std::min(1 / uncertainty, max_df)};
}

std::vector<double> Scatter::of_launch(double ranks) const {
  std::vector<double> weights(sizes_.size());
  const auto above = std::ranges::lower_bound(sizes_, ranks, {}, &SizeScatter::ranks);
  if (above == sizes_.end()) {
    const double last = fitted(sizes_.back().ranks);
    weights.back() = last > 0 ? fitted(ranks) / last : 1;
  } else if (above == sizes_.begin()) {
    weights.front() = 1;
  } else {
    const auto i = static_cast<std::size_t>(above - sizes_.begin());
    const double below = sizes_[i - 1].ranks;
    weights[i] = std::log(ranks / below) / std::log(above->ranks / below);
    weights[i - 1] = 1 - weights[i];
  }
  return weights;
}

}  // namespace shardstream::study
