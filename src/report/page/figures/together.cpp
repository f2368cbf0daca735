#include "report/page/figures/together.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/text.hpp"
#include "report/page/figures/estimates.hpp"
#include "report/page/figures/law.hpp"

namespace shardstream::report::page {
namespace {

/// The estimates of all studies.
using AllBars = std::vector<std::vector<Bar>>;

AllBars all_bars_of(const Report& report, study::Estimate study::Size::*of) {
  AllBars all;
  for (const StudyReport& study : report.studies) {
    all.push_back(bars_of(study, [of](const study::Size& size) { return size.*of; }));
  }
  return all;
}

std::vector<Bar> joined(const AllBars& all) {
  std::vector<Bar> bars;
  for (const std::vector<Bar>& each : all) bars.insert(bars.end(), each.begin(), each.end());
  return bars;
}

/// The numbers of ranks of all studies.
std::vector<int> ranks_of_all(const Report& report) {
  std::set<int> ranks;
  for (const StudyReport& study : report.studies) {
    for (const study::Size& size : study.table.sizes) ranks.insert(size.ranks);
  }
  return {ranks.begin(), ranks.end()};
}

/// Points per study, beside each other so that no bar hides another, with its law or else a line
/// through them. `laws` are empty or have one for each study.
void plot_studies(Script& script, Figure& figure, const Report& report, const AllBars& all,
                  const Extent& extent, const std::vector<LawLines>& laws = {}) {
  constexpr double step = 0.02;  // of the number of ranks
  const double middle = (static_cast<double>(all.size()) - 1) / 2;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<Bar> bars = all[i];
    for (Bar& bar : bars) bar.ranks *= 1 + step * (static_cast<double>(i) - middle);
    std::string words = report.together->studies[i].label;
    const bool has_law = !laws.empty() && !laws[i].inside.empty();
    if (has_law) words += fmt::format("; {}: {}", laws[i].name, laws[i].share);
    if (has_law && !laws[i].limit_words.empty()) words += ", limit " + laws[i].limit_words;
    if (!laws.empty() && !has_law) words += "; no law";
    figure.legend.push_back({styles[i], Look::line_and_points, std::move(words)});
    if (has_law) plot_law_of_many(script, laws[i], styles[i]);
    (has_law ? plot_bars : plot_estimates)(script, figure, cut(bars, extent), styles[i]);
  }
  // The line on cut bars comes last.
  std::ranges::stable_partition(figure.legend,
                                [](const Legend& each) { return each.look != Look::points; });
}

std::string basis_of(const Report& report) {
  std::size_t launches = 0;
  for (const StudyReport& study : report.studies) launches += study.runs.size();
  const bool has_intervals = std::ranges::any_of(
      report.studies, [](const StudyReport& study) { return study.table.has_intervals(); });
  return fmt::format("{}; {}.", counted(launches, "launch"),
                     has_intervals ? "bars are 95 % intervals over launches (Student's t); points "
                                     "are shifted sideways a little, so that no bar hides another"
                                   : "no intervals, since no size has several launches");
}

Grid grid_of(const Report& report, study::Estimate study::Size::*of) {
  Grid grid{{"ranks"}};
  for (const Distinction& study : report.together->studies) grid.header.push_back(study.label);
  for (const int ranks : ranks_of_all(report)) {
    grid.rows.push_back({fmt::format("{}", ranks)});
    for (const StudyReport& study : report.studies) {
      const auto found = std::ranges::find(study.table.sizes, ranks, &study::Size::ranks);
      const bool has_size = found != study.table.sizes.end();
      grid.rows.back().push_back(has_size ? estimate_text((*found).*of, 4) : "-");
    }
  }
  return grid;
}

Figure time_figure(const Report& report) {
  const std::string title = "Time of a repetition";
  if (!report.together->why_no_times.empty()) {
    return missing("time", title, "the work differs: " + report.together->why_no_times);
  }
  Figure figure{"time", title, "Lower is better. All studies do the same work.", basis_of(report)};
  const AllBars all = all_bars_of(report, &study::Size::seconds);
  const Extent extent = extent_of(Spacing::logarithmic, {}, joined(all));
  Script script;
  set_ranks_axis(script, ranks_of_all(report));
  set_log_axis(script, "time of a repetition [s]", {extent.lo, extent.hi});
  plot_studies(script, figure, report, all, extent);
  figure.script = script.text();
  figure.numbers = grid_of(report, &study::Size::seconds);
  return figure;
}

Figure speedup_figure(const Report& report) {
  const bool is_strong = report.studies.front().is_strong();
  Figure figure{"speedup", is_strong ? "Speed-up" : "Scaled speed-up",
                "The closer to the dotted ideal line, the better. Both axes are logarithmic. Each "
                "study is compared with its own smallest size.",
                basis_of(report)};
  const AllBars all = all_bars_of(report, &study::Size::speedup);
  std::vector<int> ranks = ranks_of_all(report);
  std::vector<LawLines> laws;
  Rows shown;  // all points of the laws
  for (const StudyReport& study : report.studies) {
    const LawLines& law = laws.emplace_back(law_of_speedups(study));
    for (const Rows& part : {law.inside, law.beyond, law.limit}) {
      shown.insert(shown.end(), part.begin(), part.end());
    }
    if (!law.beyond.empty()) ranks.push_back(study.laws.expected->ranks);
  }
  if (shown.empty()) {
    laws.clear();
  } else {
    figure.how_to_read +=
        " A line is the law that fits its study, thin from the largest size on; without such a "
        "law, it joins the points. Thin level lines are limits.";
  }
  std::vector<Rows> configured;
  for (const StudyReport& study : report.studies) {
    const Rows& rows = configured.emplace_back(configured_speedups(study));
    shown.insert(shown.end(), rows.begin(), rows.end());
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  const double first = ranks.front(), last = ranks.back();
  const Extent extent = extent_of(Spacing::logarithmic,
                                  values_of({{{first, first}, {last, last}}, shown}), joined(all));
  Script script;
  set_ranks_axis(script, ranks);
  set_log_axis(script, "speed-up", {extent.lo, extent.hi}, doubling_tics);
  script.plot({{first, first}, {last, last}}, "using 1:2 with lines " + line_of(ideal_style));
  constexpr std::string_view dots = "1 5";
  constexpr double wide = 3;
  bool has_configured = false;
  for (std::size_t i = 0; i < configured.size(); ++i) {
    script.plot(configured[i],
                "using 1:2 with lines " + line_of({styles[i].colour, dots, 0}, wide));
    has_configured = has_configured || !configured[i].empty();
  }
  plot_studies(script, figure, report, all, extent, laws);
  figure.legend.push_back({ideal_style, Look::line, "ideal"});
  if (has_configured) {
    figure.how_to_read += " Wide dots in the colour of a study are its configured law.";
  }
  figure.script = script.text();
  figure.numbers = grid_of(report, &study::Size::speedup);
  return figure;
}

Figure efficiency_figure(const Report& report) {
  Figure figure{"efficiency", "Efficiency",
                "1 is ideal. Each study is compared with its own smallest size.", basis_of(report)};
  const AllBars all = all_bars_of(report, &study::Size::efficiency);
  const double first = ranks_of_all(report).front(), last = ranks_of_all(report).back();
  const Extent extent = extent_of(Spacing::linear, {0, 1}, joined(all));
  Script script;
  set_ranks_axis(script, ranks_of_all(report));
  set_linear_axis(script, "efficiency", extent);
  script.plot({{first, 1}, {last, 1}}, "using 1:2 with lines " + line_of(ideal_style));
  plot_studies(script, figure, report, all, extent);
  figure.legend.push_back({ideal_style, Look::line, "ideal"});
  figure.script = script.text();
  figure.numbers = grid_of(report, &study::Size::efficiency);
  return figure;
}

}  // namespace

std::vector<Figure> together_figures(const Report& report) {
  return {time_figure(report), speedup_figure(report), efficiency_figure(report)};
}

}  // namespace shardstream::report::page
