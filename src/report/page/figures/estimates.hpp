// Estimates in figures: axes that long intervals do not squash, and bars that are cut at them.
#pragma once

#include <functional>
#include <vector>

#include "report/page/figures/figure.hpp"
#include "report/studies.hpp"

namespace shardstream::report::page {

/// An estimate at a number of ranks. Without an interval, both ends are the value.
struct Bar {
  double ranks = 0, value = 0, lo = 0, hi = 0;
};

Bar bar_of(double ranks, const study::Estimate& estimate);
/// The estimate of each size.
std::vector<Bar> bars_of(const StudyReport& study,
                         const std::function<study::Estimate(const study::Size&)>& of);

/// The extent of the `values`, and of the bars as far as they do not squash the figure. If they
/// extend it much more, on either side, than by a quarter of the extent of the values and by twice
/// the median length of a bar, they extend it by the larger of these only.
Extent extent_of(Spacing spacing, const std::vector<double>& values, const std::vector<Bar>& bars);

/// Bars, cut at an extent, and the numbers of ranks and the ends of those that are cut.
struct CutBars {
  Rows bars;  ///< ranks, value, low end, high end
  Rows up, down;

  bool any() const { return !up.empty() || !down.empty(); }
};
CutBars cut(const std::vector<Bar>& bars, const Extent& extent);

/// Draws values with bars, and triangles at the ends of those that are cut. Adds a line to the
/// legend of `figure` if there are such.
void plot_bars(Script& script, Figure& figure, const CutBars& bars, const Style& style);
/// The same with a line through the values.
void plot_estimates(Script& script, Figure& figure, const CutBars& bars, const Style& style);

}  // namespace shardstream::report::page
