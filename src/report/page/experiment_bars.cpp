#include "report/page/experiment_bars.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace shardstream::report::page {
namespace {

constexpr double max_linear_ratio = 40;  // of values; shorter bars are hardly visible

/// "28836", "99.1", "0.00226"
std::string value_text(double value) {
  return value >= 100 && value < 1e7 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

/// The positive values.
Extent extent_of(const std::vector<NamedBar>& bars) {
  Extent extent{INFINITY, 0};
  for (const NamedBar& bar : bars) {
    if (!(bar.value > 0 && std::isfinite(bar.value))) continue;
    extent.lo = std::min(extent.lo, bar.value);
    extent.hi = std::max(extent.hi, bar.value);
  }
  return extent;
}

/// The axis from zero to the largest value, reference, and interval that is not much longer.
Extent linear_extent(const std::vector<NamedBar>& bars) {
  constexpr double room = 1.05, max_interval = 1.3;
  double max = extent_of(bars).hi;
  const double largest = max;
  for (const NamedBar& bar : bars) {
    if (std::isfinite(bar.hi)) max = std::max(max, std::min(bar.hi, max_interval * largest));
    for (const double reference : bar.references) {
      if (std::isfinite(reference)) max = std::max(max, reference);
    }
  }
  return {0, max > 0 ? room * max : 1};
}

constexpr double line_height = 16, row_gap = 3, bar_half = 6.5;  // pixels

/// The places of all parts of a picture of bars.
struct Layout {
  Frame frame;
  Axis axis;
  std::vector<std::vector<std::string>> names;  ///< the lines of each name
  std::vector<double> places;                   ///< of the rows, in pixels below the top, negative
  double height = row_gap;                      ///< of all rows

  Layout(const std::vector<NamedBar>& bars, bool is_log) {
    constexpr double gap = 14, max_name = 168, min_left = 30, below = 55;
    double longest = 0, values = 0;
    for (const NamedBar& bar : bars) {
      names.push_back(lines_of(bar.name, max_name));
      for (const std::string& line : names.back()) longest = std::max(longest, text_width(line));
      values = std::max(values, text_width(value_text(bar.value)));
      const double row = line_height * static_cast<double>(names.back().size()) + row_gap;
      places.push_back(-height - row / 2);
      height += row;
    }
    height += row_gap;
    frame.left = std::max(min_left, longest + gap);
    frame.right = values + gap;
    frame.bottom = below;
    frame.height = static_cast<int>(frame.top + height + frame.bottom);
    const Extent extent = extent_of(bars);
    const bool is_wide = is_log && extent.hi > max_linear_ratio * extent.lo;
    axis = {is_wide ? Spacing::logarithmic : Spacing::linear, Direction::across,
            is_wide ? log_extent({extent.lo, extent.hi}) : linear_extent(bars),
            frame.inner_width()};
  }
  bool is_log() const { return axis.spacing == Spacing::logarithmic; }
};

void set_axes(Script& script, const Layout& layout) {
  script.set("unset ytics");
  script.set("unset grid");
  script.set("set grid x lc rgb '#8a949e' lw 0.4 dt (1,4)");
  script.set("set border 1 lw 0.8");
  script.set(fmt::format("set yrange [{}:0]", -layout.height));
  if (layout.is_log()) script.set("set logscale x");
  const Extent& extent = layout.axis.extent;
  script.set(fmt::format("set xrange [{:.9g}:{:.9g}]", extent.lo, extent.hi));
  script.set(fmt::format("set xtics ({})", fitting_tics(layout.axis)));
}

/// The name of the axis, below its middle, but inside the picture.
void add_axis_name(Script& script, Figure& figure, const Frame& frame, const std::string& name) {
  constexpr double from_edge = 14;
  const double half = text_width(name) / 2, middle = frame.left + frame.inner_width() / 2;
  const double x = std::max(half, std::min(middle, frame.width - half));
  script.set(fmt::format("set label 'YLABEL' at screen {:.4g}, screen {:.4g} center",
                         x / frame.width, from_edge / frame.height));
  figure.labels["YLABEL"] = name;
}

/// The lines of a name, one below the other.
void add_name(Script& script, Figure& figure, const Layout& layout, std::size_t row) {
  const std::vector<std::string>& lines = layout.names[row];
  const double first =
      layout.places[row] + line_height * (static_cast<double>(lines.size()) - 1) / 2;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string word = fmt::format("BAR{:03}LINE{:02}", row, i);
    script.set(fmt::format("set label '{}' at graph 0, first {} right offset -0.8,0 front", word,
                           first - line_height * static_cast<double>(i)));
    figure.labels[word] = lines[i];
  }
}

/// The end of a bar with its interval, and with a reference that is close to it.
double end_of(const NamedBar& bar, const Extent& extent) {
  const double near = 0.1 * extent.hi;
  double end = std::isfinite(bar.hi) ? std::max(bar.value, bar.hi) : bar.value;
  for (const double reference : bar.references) {
    if (reference < end + near) end = std::max(end, reference);
  }
  return std::min(end, extent.hi);
}

void add_value(Script& script, Figure& figure, const Layout& layout, const NamedBar& bar,
               std::size_t row) {
  const std::string word = fmt::format("VALUE{:03}", row);
  const double end = end_of(bar, layout.axis.extent);
  script.set(fmt::format("set label '{}' at {:.9g},{} left offset {},0 front", word, end,
                         layout.places[row], layout.is_log() ? 0.9 : 0.5));
  figure.labels[word] = value_text(bar.value);
  if (!layout.is_log()) return;
  script.set(
      fmt::format("set arrow from graph 0, first {0} to graph 1, first {0} nohead back lc rgb "
                  "'#8a949e' lw 0.6 dt (1,3)",
                  layout.places[row]));
}

/// Rows of the same colour are drawn at once.
void plot_values(Script& script, const Layout& layout, const std::vector<NamedBar>& bars) {
  std::vector<std::string_view> colours;
  for (const NamedBar& bar : bars) {
    if (std::ranges::find(colours, bar.colour) == colours.end()) colours.push_back(bar.colour);
  }
  for (const std::string_view colour : colours) {
    Rows rows;
    for (std::size_t i = 0; i < bars.size(); ++i) {
      const double y = layout.places[i], value = bars[i].value;
      if (bars[i].colour != colour || !std::isfinite(value)) continue;
      if (layout.is_log()) {
        rows.push_back({value, y});
      } else {
        rows.push_back({0, y, 0, value, y - bar_half, y + bar_half});
      }
    }
    if (layout.is_log()) {
      script.plot(rows, "using 1:2 with points " + points_of({colour, "", styles[0].point}, 0.9));
    } else {
      script.plot(rows, fmt::format("using 1:2:3:4:5:6 with boxxyerror fs solid 0.85 border lc rgb "
                                    "'{0}' lc rgb '{0}' lw 0.6",
                                    colour));
    }
  }
}

/// Lines across the bars at their references, and along them from end to end of their intervals.
void plot_additions(Script& script, const Layout& layout, const std::vector<NamedBar>& bars) {
  constexpr double more = 2;
  const double half = bar_half + more;
  const Extent& extent = layout.axis.extent;
  Rows intervals;
  std::array<Rows, reference_dashes.size()> references;
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const double y = layout.places[i];
    const double lo = std::max(bars[i].lo, extent.lo), hi = std::min(bars[i].hi, extent.hi);
    if (hi > lo) intervals.push_back({lo, y, hi - lo, 0});
    for (std::size_t k = 0; k < bars[i].references.size(); ++k) {
      if (!std::isfinite(bars[i].references[k])) continue;
      references.at(k).push_back({bars[i].references[k], y - half, 0, 2 * half});
    }
  }
  script.plot(intervals, fmt::format("using 1:2:3:4 with vectors nohead lw 1.2 lc rgb '{}'",
                                     ideal_style.colour));
  for (std::size_t k = 0; k < references.size(); ++k) {
    script.plot(references[k], fmt::format("using 1:2:3:4 with vectors nohead lw 2 lc rgb '{}' {}",
                                           ideal_style.colour, reference_dashes[k].gnuplot));
  }
}

}  // namespace

Script script_of(const Frame& frame) {
  Script script(frame.width, frame.height);
  script.set(fmt::format("set lmargin at screen {:.4g}", frame.left / frame.width));
  script.set(fmt::format("set rmargin at screen {:.4g}", 1 - frame.right / frame.width));
  script.set(fmt::format("set tmargin at screen {:.4g}", 1 - frame.top / frame.height));
  script.set(fmt::format("set bmargin at screen {:.4g}", frame.bottom / frame.height));
  return script;
}

void draw_bars(Figure& figure, const std::string& label, const std::vector<NamedBar>& bars,
               bool is_log) {
  const Layout layout(bars, is_log);
  Script script = script_of(layout.frame);
  set_axes(script, layout);
  for (std::size_t i = 0; i < bars.size(); ++i) {
    add_name(script, figure, layout, i);
    if (std::isfinite(bars[i].value)) add_value(script, figure, layout, bars[i], i);
  }
  plot_values(script, layout, bars);
  plot_additions(script, layout, bars);
  add_axis_name(script, figure, layout.frame, label);
  figure.script = script.text();
}

}  // namespace shardstream::report::page
