// A figure: a picture with title, legend and explanation, and the numbers below it.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "report/page/figures/axes.hpp"
#include "report/page/html.hpp"
#include "study/statistics/estimate.hpp"

namespace shardstream::report::page {

/// Rows of numbers, for gnuplot.
using Rows = std::vector<std::vector<double>>;
/// The second numbers of all rows.
std::vector<double> values_of(const std::vector<Rows>& parts);

/// The colour (Okabe and Ito), dashes and marker of a series. Each of them identifies the series.
struct Style {
  std::string_view colour;
  std::string_view dashes;  ///< lengths with blanks between them; empty: a full line
  int point;                ///< gnuplot's number of the marker
};
inline constexpr std::array<Style, 6> styles = {{{"#0072B2", "", 7},
                                                 {"#D55E00", "8 4", 5},
                                                 {"#009E73", "2 3", 9},
                                                 {"#CC79A7", "8 3 2 3", 13},
                                                 {"#E69F00", "12 4", 11},
                                                 {"#56B4E9", "5 2", 4}}};
inline constexpr Style ideal_style = {"#808890", "3 4", 0};

/// The gnuplot options for a line or its markers in this style.
std::string line_of(const Style& style, double width = 1.6);
std::string points_of(const Style& style, double size = 0.75);

/// The symbol of a series in the legend.
enum class Look { line, points, line_and_points, band, box };

struct Legend {
  Style style;
  Look look;
  std::string words;
};

/// A gnuplot script. It contains only numbers and texts of this program, since gnuplot's language
/// can start programs.
class Script {
 public:
  explicit Script(int width = 400, int height = 280);
  void set(const std::string& setting) { settings_ += setting + '\n'; }
  /// Draws rows of numbers; `how` is "using 1:2 with lines". Draws nothing without rows.
  void plot(const Rows& rows, const std::string& how);
  /// Whether there is nothing to draw.
  bool is_empty() const { return plots_.empty(); }
  std::string text() const;

 private:
  std::string settings_, data_, plots_;
  int blocks_ = 0;
};

/// The x axis with numbers of ranks, logarithmic, with a tic at each size (at most eight).
void set_ranks_axis(Script& script, const std::vector<int>& ranks, double beyond = 1);
/// The y axis, logarithmic, over all values, with tics as a function of this file gives them;
/// `label` is a word of this program.
void set_log_axis(Script& script, const std::string& label, const std::vector<double>& values,
                  std::string (*tics_of)(const Extent&) = log_tics);

/// The y axis, linear, with a margin, which an end at zero does not need.
void set_linear_axis(Script& script, const std::string& label, const Extent& extent);

struct Figure {
  std::string id;  ///< a plain word, unique in a study
  std::string title;
  std::string how_to_read;  ///< one line
  std::string basis;        ///< launches and intervals
  std::string lesson = {};  ///< what the figure teaches, as HTML
  std::vector<Legend> legend = {};
  std::string script = {};       ///< empty if there is nothing to draw
  std::string wide_script = {};  ///< a variant for wide screens; empty: `script`
  std::string why_missing = {};  ///< the reason if there is no script
  /// Placeholders in the scripts, and the texts that replace them, which may come from files.
  std::map<std::string, std::string> labels = {};
  Grid numbers = {};
  std::vector<std::string> pictures = {};  ///< of `script` and `wide_script`, ready for the page
};

/// A figure without a picture, which shows the reason instead.
Figure missing(std::string id, std::string title, std::string why);

/// The id of the figure in a page. `study` makes it unique; without it, the figure's own id.
std::string id_in(const std::string& study, const Figure& figure);

/// The figure as HTML with the id `id_in(study, figure)`; `why_not` is the reason if a script has
/// no picture.
std::string to_html(const Figure& figure, const std::string& study, const std::string& why_not);

/// The figure, which must have pictures, as an SVG document with title, legend and basis, dark on
/// white. `subtitle` describes the measurement.
std::string to_svg(const Figure& figure, const std::string& subtitle);

/// "0.9500", "1.234e+06"; "-" if it is not finite.
std::string number_text(double value, int digits = 4);
/// "0.95 [0.93, 0.97]"
std::string estimate_text(const study::Estimate& estimate, int digits = 3);

}  // namespace shardstream::report::page
