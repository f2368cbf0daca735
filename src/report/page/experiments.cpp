#include "report/page/experiments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <utility>
#include <variant>

#include "core/text.hpp"
#include "report/page/bench_roofline.hpp"
#include "report/page/code.hpp"
#include "report/page/experiment_bars.hpp"
#include "report/page/experiment_texts.hpp"
#include "report/page/figures/estimates.hpp"
#include "report/page/panels.hpp"

namespace shardstream::report::page {
namespace {

/// A bound of the interval, or the value itself if there is none.
double bound(const Row& row, const char* column, double value) {
  const double found = row.get<double>(column);
  return std::isfinite(found) ? found : value;
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

/// The columns of the reference lines that a figure can show.
std::span<const std::string> reference_lines(const ExperimentResult& experiment) {
  return std::span(experiment.reference_lines)
      .first(std::min(experiment.reference_lines.size(), reference_dashes.size()));
}

/// A line of a figure.
struct Series {
  std::string name;
  Style style;
  std::vector<Bar> points;  ///< with the numbers `x` as ranks
  Rows references;          ///< `x` and the reference lines, for each point
};

/// The lines of a panel. A line has the same style in all panels.
std::vector<Series> series_of(const Panel& panel) {
  const ExperimentResult& experiment = panel.part;
  std::vector<Series> all;
  for (const Row& row : first_rank(experiment.table)) {
    const std::string name =
        experiment.series.empty() ? "" : shardstream::to_text(row[experiment.series]);
    auto series = std::ranges::find(all, name, &Series::name);
    if (series == all.end()) {
      const auto place = std::ranges::find(panel.series, name) - panel.series.begin();
      series = all.insert(all.end(), {name, style_of(static_cast<std::size_t>(place)), {}, {}});
    }
    const double x = number_of(row[experiment.x]), y = row.get<double>(experiment.y);
    series->points.push_back({x, y, bound(row, "ci_lo", y), bound(row, "ci_hi", y)});
    series->references.push_back({x});
    for (const std::string& column : reference_lines(experiment)) {
      series->references.back().push_back(number_of(row[column]));
    }
  }
  for (Series& series : all) {
    std::ranges::sort(series.points, {}, &Bar::ranks);
    std::ranges::sort(series.references);
  }
  return all;
}

void add_reference_lines(Figure& figure, const ExperimentResult& experiment) {
  const auto references = reference_lines(experiment);
  for (std::size_t k = 0; k < references.size(); ++k) {
    figure.legend.push_back(
        {{ideal_style.colour, reference_dashes[k].legend, 0}, Look::line, references[k]});
  }
}

/// Lines of one point each are bars.
void draw_points(Figure& figure, const Panel& panel, const std::vector<Series>& all) {
  const ExperimentResult& experiment = panel.part;
  const double x = all[0].points[0].ranks;
  const bool have_one_x =
      std::ranges::all_of(all, [x](const Series& each) { return each.points[0].ranks == x; });
  const auto x_text = [&](const Series& series) {
    return fmt::format("{} = {}", experiment.x,
                       amount(series.points[0].ranks, experiment.table, experiment.x));
  };
  std::vector<NamedBar> bars;
  for (const Series& series : all) {
    const Bar& point = series.points[0];
    NamedBar bar{series.name, point.value, point.lo, point.hi, series.style.colour};
    bar.references.assign(series.references[0].begin() + 1, series.references[0].end());
    if (!have_one_x || bar.name.empty())
      bar.name += (bar.name.empty() ? "" : ", ") + x_text(series);
    bars.push_back(std::move(bar));
  }
  std::string label = with_unit(experiment.table, experiment.y);
  if (have_one_x && !all[0].name.empty()) label += fmt::format(", {}", x_text(all[0]));
  draw_bars(figure, label, bars, experiment.log.find('y') != experiment.log.npos);
  add_reference_lines(figure, experiment);
}

/// The axes of `y` over `x`. Returns the extent of `y`, at which intervals are cut.
Extent set_axes(Script& script, const Frame& frame, const ExperimentResult& experiment,
                const std::vector<Series>& all) {
  std::vector<double> xs, ys;
  std::vector<Bar> points;
  for (const Series& series : all) {
    points.insert(points.end(), series.points.begin(), series.points.end());
    for (const auto& row : series.references) {
      xs.push_back(row[0]);
      ys.insert(ys.end(), row.begin() + 1, row.end());
    }
  }
  const auto spacing = [&](char axis) {
    const bool is_log = experiment.log.find(axis) != experiment.log.npos;
    return is_log ? Spacing::logarithmic : Spacing::linear;
  };
  Axis x{spacing('x'), Direction::across, log_extent(xs), frame.inner_width()};
  if (x.spacing == Spacing::logarithmic) {
    script.set("set logscale x");
  } else {
    x.extent = extent_of(Spacing::linear, xs, {});
    const double length = x.extent.hi - x.extent.lo;
    const double margin = length > 0 ? 0.02 * length : std::max(1.0, std::abs(x.extent.lo));
    x.extent = {x.extent.lo - margin, x.extent.hi + margin};
  }
  script.set(fmt::format("set xrange [{:.9g}:{:.9g}]", x.extent.lo, x.extent.hi));
  script.set(fmt::format("set xtics ({})", fitting_tics(x, xs)));
  Axis y{spacing('y'), Direction::up, {}, frame.inner_height()};
  if (y.spacing == Spacing::linear) ys.push_back(0);
  const Extent shown = extent_of(y.spacing, ys, points);
  if (y.spacing == Spacing::logarithmic) {
    y.extent = log_extent({shown.lo, shown.hi});
    script.set("set logscale y");
  } else {
    y.extent = {std::min(0.0, shown.lo), shown.hi > 0 ? 1.08 * shown.hi : 1};
  }
  script.set(fmt::format("set yrange [{:.9g}:{:.9g}]", y.extent.lo, y.extent.hi));
  script.set(fmt::format("set ytics ({})", fitting_tics(y)));
  return shown;
}

/// `y` over the numbers `x`, with one line for each text of `series`. With reference lines, `y` has
/// only points.
void draw_lines(Figure& figure, const Panel& panel) {
  const ExperimentResult& experiment = panel.part;
  const std::vector<Series> all = series_of(panel);
  if (std::ranges::all_of(all, [](const Series& each) { return each.points.size() == 1; })) {
    if (!all.empty()) draw_points(figure, panel, all);
    return;
  }
  const auto references = reference_lines(experiment);
  const Frame frame;
  Script script = script_of(frame);
  const Extent extent = set_axes(script, frame, experiment, all);
  script.set("set xlabel 'XLABEL'");
  script.set("set ylabel 'YLABEL'");
  for (const Series& series : all) {
    for (std::size_t k = 0; k < references.size(); ++k) {
      script.plot(series.references,
                  fmt::format("using 1:{} with lines lc rgb '{}' lw 0.9 {}", 2 + k,
                              series.style.colour, reference_dashes[k].gnuplot));
    }
    const CutBars points = cut(series.points, extent);
    if (references.empty()) {
      plot_estimates(script, figure, points, series.style);
    } else {
      plot_bars(script, figure, points, series.style);
    }
    if (!series.name.empty()) {
      figure.legend.push_back(
          {series.style, references.empty() ? Look::line_and_points : Look::points, series.name});
    }
  }
  add_reference_lines(figure, experiment);
  figure.labels["XLABEL"] = with_unit(experiment.table, experiment.x);
  figure.labels["YLABEL"] = with_unit(experiment.table, experiment.y);
  figure.script = script.text();
}

/// Horizontal bars in the order of the rows.
void draw_rows(Figure& figure, const ExperimentResult& experiment) {
  const std::vector<Row> rows = first_rank(experiment.table);
  const std::vector<std::string> names = bar_names(experiment, rows);
  std::vector<NamedBar> bars;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double value = rows[i].get<double>(experiment.y);
    bars.push_back(
        {names[i], value, bound(rows[i], "ci_lo", value), bound(rows[i], "ci_hi", value)});
  }
  if (bars.empty()) return;
  draw_bars(figure, with_unit(experiment.table, experiment.y), bars,
            experiment.log.find('y') != experiment.log.npos);
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

/// The texts beside the columns and rows of a matrix.
struct MatrixTexts {
  std::vector<std::string> across, down;
};

/// An empty matrix with room for its texts.
Script matrix_script(Figure& figure, const MatrixTexts& texts) {
  constexpr double row_height = 44, for_label = 32, gap = 14, longest_text = 150;
  double across = 0, down = 0;
  const auto tics_of = [&](const char* prefix, const std::vector<std::string>& all, int sign,
                           double& longest) {
    std::string tics;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string text = lines_of(all[i], longest_text).front();
      longest = std::max(longest, text_width(text));
      figure.labels[fmt::format("{}{:03}", prefix, i)] = text;
      tics +=
          fmt::format("{}'{}{:03}' {}", i == 0 ? "" : ",", prefix, i, sign * static_cast<int>(i));
    }
    return tics;
  };
  const std::string x_tics = tics_of("COLUMN", texts.across, 1, across);
  const std::string y_tics = tics_of("LINE", texts.down, -1, down);
  const auto columns = static_cast<double>(texts.across.size());
  const auto rows = static_cast<double>(texts.down.size());
  Frame frame;
  frame.left = down + for_label + gap;
  const bool are_upright = across + gap > frame.inner_width() / columns;
  if (are_upright) frame.bottom += across;
  frame.height = static_cast<int>(frame.top + row_height * rows + frame.bottom);
  Script script = script_of(frame);
  script.set(
      fmt::format("set xtics {} ({}) scale 0", are_upright ? "rotate by 90 right" : "", x_tics));
  script.set(fmt::format("set ytics ({}) scale 0", y_tics));
  script.set("unset grid");
  script.set(fmt::format("set xrange [-0.5:{}]", columns - 0.5));
  script.set(fmt::format("set yrange [{}:0.5]", 0.5 - rows));
  // gnuplot knows only short words for the texts of tics, and would place the axes beside these.
  constexpr double from_edge = 14;
  script.set(fmt::format("set label 'XLABEL' at graph 0.5, screen {:.4g} center",
                         from_edge / frame.height));
  script.set(fmt::format("set label 'YLABEL' at screen {:.4g}, graph 0.5 center rotate by 90",
                         from_edge / frame.width));
  return script;
}

/// A cell for each pair of `series` (rows) and `x` (columns), darker for larger values. If several
/// ranks have measured a pair, the first one is shown.
void draw_matrix(Figure& figure, const ExperimentResult& experiment) {
  const MatrixTexts all = {distinct(experiment.table, experiment.x),
                           distinct(experiment.table, experiment.series)};
  Script script = matrix_script(figure, all);
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
    const double x = place(all.across, experiment.x), y = -place(all.down, experiment.series);
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
    draw_rows(figure, experiment);
  }
  if (figure.script.empty()) figure.why_missing = "the table is empty";
  figure.numbers = numbers_of(experiment.table, is_matrix);
  return figure;
}

/// "stride", "stride-2": the id of a figure of an experiment. Names come from a file, so other
/// characters than those of experiments become "_".
std::string id_of(std::string name, std::size_t number) {
  for (char& c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    if (!is_plain) c = '_';
  }
  return number == 1 ? name : fmt::format("{}-{}", name, number);
}

}  // namespace

std::vector<Figure> experiment_figures(const BenchFile& bench, const Lessons& lessons) {
  std::vector<Figure> figures;
  std::set<std::string> ids;
  for (const ExperimentResult& experiment : bench.experiments) {
    if (!experiment.is_measured()) continue;
    bool is_first = true;
    std::size_t number = 0;
    for (const Panel& panel : panels_of(experiment)) {
      std::string id = id_of(experiment.name, ++number);
      if (!ids.insert(id).second) id = fmt::format("e_{}", figures.size());
      figures.push_back(figure_of(bench, panel, is_first, id));
      if (const auto lesson = lessons(experiment.name); is_first && lesson) {
        figures.back().lesson =
            to_html(*lesson) + code_of_rungs(*lesson, experiment.table) + code_of_lesson(*lesson);
      }
      is_first = false;
    }
  }
  return figures;
}

namespace {

/// Links to the first figure of each experiment, by group. `figures` are those of the file.
std::string contents_of(const BenchFile& bench, const std::vector<Figure>& figures,
                        const std::string& prefix) {
  std::string html, group;
  std::size_t next = 0;
  for (const ExperimentResult& experiment : bench.experiments) {
    if (!experiment.is_measured()) continue;
    const std::size_t panels = panels_of(experiment).size();
    if (html.empty() || group != experiment.group) {
      group = experiment.group;
      html += fmt::format("{}<li>{}:", html.empty() ? "" : "</li>\n", escape(group));
    }
    html += fmt::format(" <a href=\"#{}\">{}</a>", id_in(prefix, figures.at(next)),
                        escape(experiment.name));
    next += panels;
  }
  return html.empty() ? html : "<ul>\n" + html + "</li>\n</ul>\n";
}

}  // namespace

std::string id_of_bench(std::size_t number) {
  return fmt::format("b{}", number);
}

std::string bench_section(const BenchFile& bench, const std::vector<Figure>& figures,
                          std::size_t number, const std::string& why_not) {
  const std::string id = id_of_bench(number), prefix = number == 1 ? "" : id;
  std::string html = fmt::format(
      "<section id=\"{}\">\n<h2>{}</h2>\n<p>{}; {}, {}. Run on {} by <code>{}</code>.</p>\n", id,
      escape(bench.path.filename().string()), escape(count_of_states(bench.experiments)),
      counted(bench.ranks, "rank"), escape(bench.device), escape(bench.created),
      escape(bench.command));
  html +=
      "<p><code>shardstream bench help NAME</code> explains an experiment and lists its "
      "options.</p>\n" +
      contents_of(bench, figures, prefix) + "<div class=\"figures\">\n";
  for (const Figure& figure : figures) html += to_html(figure, prefix, why_not);
  html += "</div>\n";
  Grid others{{"experiment", "state", "why"}};
  for (const ExperimentResult& each : bench.experiments) {
    if (!each.is_measured()) others.rows.push_back({each.name, each.state, each.message});
  }
  if (!others.rows.empty()) html += "<h3>Not measured</h3>\n" + to_html(others);
  return html + "</section>\n";
}

}  // namespace shardstream::report::page
