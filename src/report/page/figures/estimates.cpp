#include "report/page/figures/estimates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace shardstream::report::page {
namespace {

constexpr int triangle_up = 9, triangle_down = 11;  // gnuplot's markers

/// A bar's larger distance from its value to an end.
double reach_of(const Bar& bar, double (*position)(double)) {
  const double value = position(bar.value);
  return std::max(position(bar.hi) - value, value - position(bar.lo));
}

double linear(double value) {
  return value;
}

/// -infinity for values that a logarithmic axis does not have.
double logarithmic(double value) {
  return value > 0 ? std::log(value) : -INFINITY;
}

}  // namespace

Bar bar_of(double ranks, const study::Estimate& estimate) {
  const auto ends = estimate.interval.value_or(study::Interval{estimate.value, estimate.value});
  return {ranks, estimate.value, ends.lo, ends.hi};
}

std::vector<Bar> bars_of(const StudyReport& study,
                         const std::function<study::Estimate(const study::Size&)>& of) {
  std::vector<Bar> bars;
  for (const study::Size& size : study.table.sizes) bars.push_back(bar_of(size.ranks, of(size)));
  return bars;
}

Extent extent_of(Spacing spacing, const std::vector<double>& values, const std::vector<Bar>& bars) {
  const auto position = spacing == Spacing::linear ? linear : logarithmic;
  double lo = INFINITY, hi = -INFINITY;
  const auto include = [&](double value) {
    if (!std::isfinite(position(value))) return;
    lo = std::min(lo, position(value));
    hi = std::max(hi, position(value));
  };
  for (const double value : values) include(value);
  for (const Bar& bar : bars) include(bar.value);
  if (lo > hi) return {1, 1};
  double min = lo, max = hi;
  std::vector<double> reaches;
  for (const Bar& bar : bars) {
    const double reach = reach_of(bar, position);
    if (std::isfinite(reach)) reaches.push_back(reach);
    min = std::min(min, position(bar.lo));
    max = std::max(max, position(bar.hi));
  }
  if (reaches.empty()) reaches = {0};
  std::ranges::sort(reaches);
  const double flat = spacing == Spacing::linear ? 0 : std::log(min_log_ratio);
  const double room = std::max(std::max(hi - lo, flat) / 4, 2 * reaches[(reaches.size() - 1) / 2]);
  constexpr double tolerance = 1.5;  // nothing is cut for less
  if (min < lo - tolerance * room) min = lo - room;
  if (max > hi + tolerance * room) max = hi + room;
  return spacing == Spacing::linear ? Extent{min, max} : Extent{std::exp(min), std::exp(max)};
}

CutBars cut(const std::vector<Bar>& bars, const Extent& extent) {
  constexpr double rounding = 1e-9;
  CutBars result;
  for (const Bar& bar : bars) {
    const double lo = std::max(bar.lo, extent.lo), hi = std::min(bar.hi, extent.hi);
    result.bars.push_back({bar.ranks, bar.value, lo, hi});
    const double tolerance = rounding * std::max(std::abs(extent.lo), std::abs(extent.hi));
    if (hi < bar.hi - tolerance) result.up.push_back({bar.ranks, hi});
    if (lo > bar.lo + tolerance) result.down.push_back({bar.ranks, lo});
  }
  return result;
}

void plot_bars(Script& script, Figure& figure, const CutBars& bars, const Style& style) {
  script.plot(bars.bars, fmt::format("using 1:2:3:4 with yerrorbars {}", points_of(style)));
  const Style up = {style.colour, "", triangle_up}, down = {style.colour, "", triangle_down};
  script.plot(bars.up, "using 1:2 with points " + points_of(up));
  script.plot(bars.down, "using 1:2 with points " + points_of(down));
  const std::string words = "the interval is longer than drawn";
  if (!bars.any() || std::ranges::find(figure.legend, words, &Legend::words) != figure.legend.end())
    return;
  figure.legend.push_back({bars.up.empty() ? down : up, Look::points, words});
}

void plot_estimates(Script& script, Figure& figure, const CutBars& bars, const Style& style) {
  script.plot(bars.bars, "using 1:2 with lines " + line_of(style, 1.2));
  plot_bars(script, figure, bars, style);
}

}  // namespace shardstream::report::page
