// Horizontal bars with names and values, for tables of experiments.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "report/page/figures/figure.hpp"

namespace shardstream::report::page {

/// The margins of a picture of this size in pixels.
struct Frame {
  int width = 400, height = 280;
  double left = 94, right = 24, top = 12, bottom = 60;

  double inner_width() const { return width - left - right; }
  double inner_height() const { return height - top - bottom; }
};
/// A script for a picture with this frame.
Script script_of(const Frame& frame);

/// The dashes of reference lines, for gnuplot and for a legend.
struct Dashes {
  const char *gnuplot, *legend;
};
inline constexpr std::array<Dashes, 2> reference_dashes = {{{"dt 1", ""}, {"dt (2,4)", "2 4"}}};

/// A value with the ends of its interval; without one, both are the value.
struct NamedBar {
  std::string name;
  double value = 0, lo = 0, hi = 0;
  std::string_view colour = styles[0].colour;
  std::vector<double> references = {};  ///< at most as many as `reference_dashes`
};

/// Bars from top to bottom, with names on the left and values on the right. `label` belongs to the
/// axis. If `is_log`, and the values differ so much that short bars would vanish, the axis is
/// logarithmic, with points: the length of a bar has no meaning there.
void draw_bars(Figure& figure, const std::string& label, const std::vector<NamedBar>& bars,
               bool is_log);

}  // namespace shardstream::report::page
