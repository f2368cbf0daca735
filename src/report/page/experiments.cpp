#include "report/page/experiments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <utility>
#include <variant>

#include "core/text.hpp"
#include "report/page/bench_roofline.hpp"
#include "report/page/experiment_texts.hpp"

namespace shardstream::report::page {
namespace {

using Rows = std::vector<std::vector<double>>;

constexpr double none = std::numeric_limits<double>::quiet_NaN();

/// A cell as a number; NaN for text.
double number_of(const Cell& cell) {
  if (const auto* const real = std::get_if<double>(&cell)) return *real;
  if (const auto* const integer = std::get_if<std::int64_t>(&cell)) {
    return static_cast<double>(*integer);
  }
  return none;
}

/// A part of an experiment with its own figure.
struct Panel {
  std::string name;  ///< "up"; empty if the experiment has one figure
  ExperimentResult part;
  std::vector<std::string> series = {};  ///< the names of the lines in all panels
};

/// The panel of a row: its text in the column `panel`, and the number of ranks that measured at the
/// same time.
std::string panel_of(const ExperimentResult& experiment, const Row& row, bool has_turns) {
  std::string name;
  if (!experiment.panel.empty()) {
    name = shardstream::to_text(row[experiment.panel]);
  }
  if (!has_turns) return name;
  const auto ranks = row.get<std::int64_t>("at_once");
  if (!name.empty()) name += ", ";
  return name + (ranks == 1 ? "each rank alone" : fmt::format("{} ranks at once", ranks));
}

/// In the order of their first rows. The column `at_once` of ranks tells whether they took turns.
std::vector<Panel> panels_of(const ExperimentResult& experiment) {
  const auto rows = experiment.table.rows();
  const auto& columns = experiment.table.columns();
  const auto at_once = std::ranges::find(columns, "at_once", &Column::name);
  const bool has_turns =
      at_once != columns.end() && at_once->type == ColumnType::integer &&
      at_once->unit == "ranks" && std::ranges::any_of(rows, [&](const Row& row) {
        return row.get<std::int64_t>("at_once") != rows[0].get<std::int64_t>("at_once");
      });
  std::vector<Panel> panels;
  for (const Row& row : rows) {
    const std::string name = panel_of(experiment, row, has_turns);
    auto panel = std::ranges::find(panels, name, &Panel::name);
    if (panel == panels.end()) {
      panel = panels.insert(panels.end(), {name, experiment});
      panel->part.table = Table("rows", columns);
    }
    panel->part.table.add(row.cells());
  }
  std::vector<std::string> series;
  for (const Row& row : rows) {
    if (experiment.series.empty()) break;
    std::string name = shardstream::to_text(row[experiment.series]);
    if (std::ranges::find(series, name) == series.end()) series.push_back(std::move(name));
  }
  for (Panel& panel : panels) panel.series = series;
  return panels;
}

/// The rows of rank 0.
std::vector<Row> first_rank(const Table& table) {
  std::vector<Row> rows;
  for (const Row& row : table.rows()) {
    if (row.get<std::int64_t>("rank") == 0) rows.push_back(row);
  }
  return rows;
}

/// A bound of the interval, or the value itself if there is none.
double bound(const Row& row, const char* column, double value) {
  const double found = row.get<double>(column);
  return std::isfinite(found) ? found : value;
}

/// A linear axis from zero to a little above the maximum.
void set_linear_axis(Script& script, const std::vector<double>& values) {
  double max = 0;
  for (const double value : values) max = std::isfinite(value) ? std::max(max, value) : max;
  script.set(fmt::format("set yrange [0:{:.9g}]", max > 0 ? 1.08 * max : 1));
}

/// The gnuplot settings for the tics of a logarithmic x axis. If there are few values, each has a
/// tic.
std::string x_tics(std::vector<double> xs) {
  constexpr std::size_t few = 6;
  std::ranges::sort(xs);
  const auto rest = std::ranges::unique(xs);
  xs.erase(rest.begin(), rest.end());
  if (xs.size() > few || xs.empty() || !std::ranges::all_of(xs, [](double x) { return x < 1e4; })) {
    return "set xtics format '%.0s%c'";
  }
  return fmt::format("set xtics ({})",
                     join(xs, ",", [](double x) { return fmt::format("{:.9g}", x); }));
}

/// The style of a series. If there are more series than styles, colours repeat with other dashes
/// and markers.
Style style_of(std::size_t series) {
  const std::size_t count = styles.size();
  Style style = styles[series % count];
  if (series >= count) {
    style.dashes = styles[(series + 1) % count].dashes;
    style.point = styles[(series + 3) % count].point;
  }
  return style;
}

/// The dashes of reference lines, for gnuplot and for a legend.
struct Dashes {
  const char *gnuplot, *legend;
};
constexpr std::array<Dashes, 2> reference_dashes = {{{"dt 1", ""}, {"dt (2,4)", "2 4"}}};

/// The columns of the reference lines that a figure can show.
std::span<const std::string> reference_lines(const ExperimentResult& experiment) {
  return std::span(experiment.reference_lines)
      .first(std::min(experiment.reference_lines.size(), reference_dashes.size()));
}

/// `y` over the numbers `x`, with one line for each text of `series`; it has the same style in all
/// panels. With reference lines, `y` has only points.
void draw_lines(Figure& figure, const Panel& panel) {
  const ExperimentResult& experiment = panel.part;
  struct Series {
    std::string name;
    Rows rows;
  };
  std::vector<Series> all;
  std::vector<double> xs, ys;
  const auto references = reference_lines(experiment);
  for (const Row& row : first_rank(experiment.table)) {
    const std::string name =
        experiment.series.empty() ? "" : shardstream::to_text(row[experiment.series]);
    auto series = std::ranges::find(all, name, &Series::name);
    if (series == all.end()) series = all.insert(all.end(), {name, {}});
    const double x = number_of(row[experiment.x]), y = row.get<double>(experiment.y);
    series->rows.push_back({x, y, bound(row, "ci_lo", y), bound(row, "ci_hi", y)});
    for (const std::string& column : references) {
      series->rows.back().push_back(number_of(row[column]));
    }
    xs.push_back(x);
    ys.push_back(y);
  }
  Script script;
  const bool log_x = experiment.log.find('x') != experiment.log.npos;
  const bool log_y = experiment.log.find('y') != experiment.log.npos;
  if (log_x) {
    const Extent extent = log_extent(xs);
    script.set("set logscale x");
    script.set(fmt::format("set xrange [{:.9g}:{:.9g}]", extent.lo, extent.hi));
    script.set(x_tics(xs));
  }
  if (log_y) {
    set_log_axis(script, "YLABEL", ys);
  } else {
    set_linear_axis(script, ys);
    script.set("set ylabel 'YLABEL'");
  }
  script.set("set xlabel 'XLABEL'");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto place = std::ranges::find(panel.series, all[i].name) - panel.series.begin();
    const Style style = style_of(static_cast<std::size_t>(place));
    std::ranges::sort(all[i].rows);
    for (std::size_t k = 0; k < references.size(); ++k) {
      script.plot(all[i].rows, fmt::format("using 1:{} with lines lc rgb '{}' lw 0.9 {}", 5 + k,
                                           style.colour, reference_dashes[k].gnuplot));
    }
    if (references.empty()) {
      script.plot(all[i].rows, "using 1:2 with lines " + line_of(style, 1.2));
    }
    script.plot(all[i].rows, "using 1:2:3:4 with yerrorbars " + points_of(style));
    if (!all[i].name.empty()) {
      figure.legend.push_back(
          {style, references.empty() ? Look::line_and_points : Look::points, all[i].name});
    }
  }
  for (std::size_t k = 0; k < references.size(); ++k) {
    figure.legend.push_back(
        {{ideal_style.colour, reference_dashes[k].legend, 0}, Look::line, references[k]});
  }
  figure.labels["XLABEL"] = with_unit(experiment.table, experiment.x);
  figure.labels["YLABEL"] = with_unit(experiment.table, experiment.y);
  figure.script = script.text();
}

/// The step between at most about five tics from zero to the maximum: 1, 2 or 5 times a power of
/// ten.
double tic_step(double max) {
  const double power = std::pow(10, std::floor(std::log10(max / 4)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= max / 4) return step * power;
  }
  return 10 * power;
}

/// Horizontal bars in the order of the rows, with `x` on the left and values on the right.
std::string bars_script(const ExperimentResult& experiment, const std::vector<Row>& rows) {
  constexpr int width = 400, bar_height = 19, around = 78, label_width = 165;
  constexpr double half = 0.36;
  Script script(width, around + bar_height * static_cast<int>(rows.size()));
  std::string tics;
  std::vector<double> values;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    tics += fmt::format("{}'BAR{:03}' {}", i == 0 ? "" : ",", i, -static_cast<double>(i));
    values.push_back(rows[i].get<double>(experiment.y));
  }
  script.set(fmt::format("set lmargin at screen {:.4g}", static_cast<double>(label_width) / width));
  script.set("set rmargin at screen 0.84");  // room for the values
  script.set(fmt::format("set ytics ({}) scale 0", tics));
  script.set("unset grid");
  script.set("set grid x lc rgb '#8a949e' lw 0.4 dt (1,4)");
  script.set("set border 1 lw 0.8");
  script.set(fmt::format("set yrange [{}:0.6]", 0.4 - static_cast<double>(rows.size())));
  double from = 0;
  if (experiment.log.find('y') != experiment.log.npos) {
    const Extent extent = log_extent(values);
    from = extent.lo;
    script.set("set logscale x");
    script.set(fmt::format("set xrange [{:.9g}:{:.9g}]", extent.lo, extent.hi));
    script.set("set xtics format '%g'");
  } else {
    double max = 0;
    for (const double value : values) max = std::isfinite(value) ? std::max(max, value) : max;
    if (!(max > 0)) max = 1;
    script.set(fmt::format("set xrange [0:{:.9g}]", 1.05 * max));
    script.set(fmt::format("set xtics {:.9g}", tic_step(max)));
  }
  script.set("set xlabel 'YLABEL'");
  Rows boxes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double y = -static_cast<double>(i);
    boxes.push_back({from, y, from, values[i], y - half, y + half});
    if (!std::isfinite(values[i])) continue;
    script.set(fmt::format("set label 'VALUE{:03}' at {:.9g},{} left offset 0.5,0 front", i,
                           values[i], y));
  }
  script.plot(boxes, fmt::format("using 1:2:3:4:5:6 with boxxyerror fs solid 0.85 border lc rgb "
                                 "'{0}' lc rgb '{0}' lw 0.6",
                                 styles[0].colour));
  return script.text();
}

/// "28836", "99.1", "0.00226"
std::string value_text(double value) {
  return value >= 100 && value < 1e7 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

void draw_bars(Figure& figure, const ExperimentResult& experiment) {
  constexpr std::size_t longest = 18;
  const std::vector<Row> rows = first_rank(experiment.table);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::string label = shardstream::to_text(rows[i][experiment.x]);
    if (label.size() > longest) label = label.substr(0, longest);
    figure.labels[fmt::format("BAR{:03}", i)] = label;
    figure.labels[fmt::format("VALUE{:03}", i)] = value_text(rows[i].get<double>(experiment.y));
  }
  figure.labels["YLABEL"] = with_unit(experiment.table, experiment.y);
  figure.script = bars_script(experiment, rows);
}

/// The texts of a column in the order of their values, without duplicates.
std::vector<std::string> distinct(const Table& table, const std::string& column) {
  std::vector<std::string> texts;
  for (const Row& row : table.rows()) texts.push_back(shardstream::to_text(row[column]));
  std::ranges::sort(texts);
  const auto rest = std::ranges::unique(texts);
  texts.erase(rest.begin(), rest.end());
  return texts;
}

/// A cell for each pair of `series` (rows) and `x` (columns), darker for larger values. If several
/// ranks have measured a pair, the first one is shown.
void draw_matrix(Figure& figure, const ExperimentResult& experiment) {
  const std::vector<std::string> across = distinct(experiment.table, experiment.x);
  const std::vector<std::string> down = distinct(experiment.table, experiment.series);
  constexpr int width = 400, around = 90, row_height = 44;
  Script script(width, around + row_height * static_cast<int>(down.size()));
  const auto tics_of = [&](const char* prefix, const std::vector<std::string>& texts, int sign) {
    std::string tics;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      figure.labels[fmt::format("{}{:03}", prefix, i)] = texts[i];
      tics +=
          fmt::format("{}'{}{:03}' {}", i == 0 ? "" : ",", prefix, i, sign * static_cast<int>(i));
    }
    return tics;
  };
  script.set(fmt::format("set xtics ({}) scale 0", tics_of("COLUMN", across, 1)));
  script.set(fmt::format("set ytics ({}) scale 0", tics_of("LINE", down, -1)));
  script.set("unset grid");
  script.set(fmt::format("set xrange [-0.5:{}]", static_cast<double>(across.size()) - 0.5));
  script.set(fmt::format("set yrange [{}:0.5]", 0.5 - static_cast<double>(down.size())));
  script.set("set lmargin at screen 0.3");
  script.set("set xlabel 'XLABEL'");
  script.set("set ylabel 'YLABEL'");
  double max = 0;
  for (const Row& row : experiment.table.rows()) {
    const double value = row.get<double>(experiment.y);
    max = std::isfinite(value) ? std::max(max, value) : max;
  }
  std::set<std::pair<double, double>> drawn;
  for (const Row& row : experiment.table.rows()) {
    const auto place = [&](const std::vector<std::string>& texts, const std::string& column) {
      return static_cast<double>(std::ranges::find(texts, shardstream::to_text(row[column])) -
                                 texts.begin());
    };
    const double x = place(across, experiment.x), y = -place(down, experiment.series);
    if (!drawn.insert({x, y}).second) continue;
    const double value = row.get<double>(experiment.y);
    const double shade = max > 0 && std::isfinite(value) ? 0.6 * value / max : 0;
    script.plot(
        {{x, y, x - 0.5, x + 0.5, y - 0.5, y + 0.5}},
        fmt::format("using 1:2:3:4:5:6 with boxxyerror fs solid {0:.3f} border lc rgb '{1}' "
                    "lc rgb '{1}' lw 0.6",
                    shade, styles[0].colour));
    const std::string label = fmt::format("CELL{:03}", drawn.size());
    script.set(fmt::format("set label '{}' at {},{} center front", label, x, y));
    figure.labels[label] = number_text(value, 3);
  }
  figure.labels["XLABEL"] = with_unit(experiment.table, experiment.x);
  figure.labels["YLABEL"] = with_unit(experiment.table, experiment.series);
  figure.script = script.text();
}

/// The first panel of an experiment has the texts; the others only have their names.
Figure figure_of(const BenchFile& bench, const Panel& panel, bool is_first, const std::string& id) {
  const ExperimentResult& experiment = panel.part;
  const bool is_matrix = experiment.look == "matrix";
  const bool has_roofs = experiment.look == "roofline" && bench.roofline.has_value();
  std::string title = experiment.name;
  if (!panel.name.empty()) title += fmt::format(" ({})", panel.name);
  if (is_first) title += ": " + experiment.summary;
  Figure figure{id, title, is_first ? words_on(experiment) : "",
                is_first ? basis_of(bench, experiment) : ""};
  if (has_roofs) {
    draw_roofline(figure, *bench.roofline);
    figure.how_to_read += ' ' + words_on_limiters(*bench.roofline);
    return figure;
  }
  if (experiment.look == "lines") {
    draw_lines(figure, panel);
  } else if (is_matrix) {
    draw_matrix(figure, experiment);
  } else {
    draw_bars(figure, experiment);
  }
  if (figure.script.empty()) figure.why_missing = "the table is empty";
  figure.numbers = numbers_of(experiment.table, is_matrix);
  return figure;
}

}  // namespace

std::vector<Figure> experiment_figures(const BenchFile& bench) {
  std::vector<Figure> figures;
  for (const ExperimentResult& experiment : bench.experiments) {
    if (!experiment.is_measured()) continue;
    bool is_first = true;
    for (const Panel& panel : panels_of(experiment)) {
      figures.push_back(figure_of(bench, panel, is_first, fmt::format("e{}", figures.size())));
      is_first = false;
    }
  }
  return figures;
}

namespace {

/// Links to the first figure of each experiment, by group. `figures` are those of the file.
std::string contents_of(const BenchFile& bench, const std::vector<Figure>& figures,
                        const std::string& id) {
  std::string html, group;
  std::size_t next = 0;
  for (const ExperimentResult& experiment : bench.experiments) {
    if (!experiment.is_measured()) continue;
    const std::size_t panels = panels_of(experiment).size();
    if (html.empty() || group != experiment.group) {
      group = experiment.group;
      html += fmt::format("{}<li>{}:", html.empty() ? "" : "</li>\n", escape(group));
    }
    html +=
        fmt::format(" <a href=\"#{}-{}\">{}</a>", id, figures.at(next).id, escape(experiment.name));
    next += panels;
  }
  return html.empty() ? html : "<ul>\n" + html + "</li>\n</ul>\n";
}

}  // namespace

std::string bench_section(const BenchFile& bench, const std::vector<Figure>& figures,
                          const std::string& id, const std::string& why_not) {
  std::string html = fmt::format(
      "<section id=\"{}\">\n<h2>{}</h2>\n<p>{}; {}, {}. Run on {} by <code>{}</code>.</p>\n", id,
      escape(bench.path.filename().string()), escape(count_of_states(bench.experiments)),
      counted(bench.ranks, "rank"), escape(bench.device), escape(bench.created),
      escape(bench.command));
  html +=
      "<p><code>shardstream bench help NAME</code> explains an experiment, what to expect, and its "
      "columns.</p>\n" +
      contents_of(bench, figures, id) + "<div class=\"figures\">\n";
  for (const Figure& figure : figures) html += to_html(figure, id, why_not);
  html += "</div>\n";
  Grid others{{"experiment", "state", "why"}};
  for (const ExperimentResult& each : bench.experiments) {
    if (!each.is_measured()) others.rows.push_back({each.name, each.state, each.message});
  }
  if (!others.rows.empty()) html += "<h3>Not measured</h3>\n" + to_html(others);
  return html + "</section>\n";
}

}  // namespace shardstream::report::page
