#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.hpp"
#include "report/page/figures/estimates.hpp"
#include "report/page/figures/figures.hpp"
#include "report/page/figures/law.hpp"

namespace shardstream::report::page {
namespace {

using study::Estimate;
/// Times of launches, with their numbers of ranks.
Rows launches_of(const StudyReport& study) {
  Rows rows;
  for (const study::MeasuredLaunch& launch : study.table.launches) {
    rows.push_back({static_cast<double>(launch.ranks), launch.seconds});
  }
  return rows;
}

/// The numbers of ranks between two sizes if the larger size uses more hosts.
std::vector<double> node_boundaries(const StudyReport& study) {
  std::vector<double> boundaries;
  double ranks = 0, hosts = 0;
  for (const study::Size& size : study.table.sizes) {
    const double on = median_of(study.runs_on(size.ranks), [](const RunFile& run) {
      return static_cast<double>(run.size.hosts);
    });
    if (hosts > 0 && on > hosts) boundaries.push_back(std::sqrt(ranks * size.ranks));
    ranks = size.ranks;
    hosts = on;
  }
  return boundaries;
}

Grid grid_of(const StudyReport& study, const std::string& name,
             const std::function<const Estimate*(const study::Size&)>& of) {
  Grid grid{{"ranks", "launches", name, "lower end", "upper end"}};
  for (const study::Size& size : study.table.sizes) {
    const Estimate* const estimate = of(size);
    if (estimate == nullptr) continue;
    const bool known = estimate->interval.has_value();
    grid.rows.push_back({fmt::format("{}", size.ranks), fmt::format("{}", size.launches),
                         number_text(estimate->value, 6),
                         known ? number_text(estimate->interval->lo, 6) : "-",
                         known ? number_text(estimate->interval->hi, 6) : "-"});
  }
  return grid;
}

constexpr const char* one_size = "the runs have one number of ranks only";

bool has_one_size(const StudyReport& study) {
  return study.table.sizes.size() < 2;
}

void plot_configured(Script& script, Figure& figure, const StudyReport& study) {
  if (!study.laws.configured) return;
  constexpr Style dotted = {styles[2].colour, styles[2].dashes, 0};
  script.plot(configured_speedups(study), "using 1:2 with lines " + line_of(dotted, 2.2));
  figure.legend.push_back(
      {dotted, Look::line,
       fmt::format("configured law, {} = {:.3g}{}", study.is_strong() ? "s" : "s'",
                   study.laws.configured->serial_share,
                   study.laws.configured->has_other_costs()
                       ? ", with its noise, imbalance or overhead"
                       : "")});
}

}  // namespace

std::vector<int> ranks_of(const StudyReport& study) {
  std::vector<int> ranks;
  for (const study::Size& size : study.table.sizes) ranks.push_back(size.ranks);
  return ranks;
}

std::string basis_of(const StudyReport& study) {
  return fmt::format("{}; {}.", counted(study.runs.size(), "launch"),
                     study.table.has_intervals()
                         ? "bars are 95 % intervals over launches (Student's t)"
                         : "no intervals, since no size has several launches");
}

Figure time_figure(const StudyReport& study) {
  Figure figure{
      "time",
      study.is_strong() ? "Time of the same work on more ranks"
                        : "Time of work that grows with the ranks",
      has_one_size(study) ? "Lower is better."
      : study.is_strong()
          ? "Lower is better. Twice the ranks should halve the time: the dotted line."
          : "The dotted line is ideal: it follows the work of a rank, and is flat if that "
            "is the same at every size.",
      basis_of(study)};
  figure.legend = {{styles[0], Look::line_and_points, "mean of launches"},
                   {styles[5], Look::points, "each launch"}};
  if (!has_one_size(study)) figure.legend.push_back({ideal_style, Look::line, "ideal"});
  const auto bars = bars_of(study, [](const study::Size& size) { return size.seconds; });
  const Rows launches = launches_of(study);
  Rows ideal;
  const study::Size& small = study.table.sizes.front();
  for (const study::Size& size : study.table.sizes) {
    const double work = size.work / small.work;
    ideal.push_back(
        {static_cast<double>(size.ranks), small.seconds.value * work * small.ranks / size.ranks});
  }
  Script script;
  set_ranks_axis(script, ranks_of(study));
  const Extent extent = extent_of(Spacing::logarithmic, values_of({launches, ideal}), bars);
  set_log_axis(script, "time of a repetition [s]", {extent.lo, extent.hi});
  if (!has_one_size(study)) script.plot(ideal, "using 1:2 with lines " + line_of(ideal_style));
  script.plot(launches, "using 1:2 with points " + points_of(styles[5], 1.1));
  plot_estimates(script, figure, cut(bars, extent), styles[0]);
  figure.script = script.text();
  figure.numbers =
      grid_of(study, "time [s]", [](const study::Size& size) { return &size.seconds; });
  return figure;
}

Figure speedup_figure(const StudyReport& study) {
  const char* const title = study.is_strong() ? "Speed-up: how much faster the work is done"
                                              : "Scaled speed-up: how much more work is done";
  if (has_one_size(study)) return missing("speedup", title, one_size);
  Figure figure{"speedup", title,
                "The closer to the dotted ideal line, the better. Both axes are logarithmic.",
                basis_of(study)};
  const auto bars = bars_of(study, [](const study::Size& size) { return size.speedup; });
  const LawLines law = law_of_speedups(study);
  figure.legend = {
      {styles[0], law.inside.empty() ? Look::line_and_points : Look::points, "measured"},
      {ideal_style, Look::line, "ideal"}};
  const double last = law.beyond.empty() ? bars.back().ranks : law.beyond.back()[0];
  const Rows ideal = {{bars.front().ranks, bars.front().ranks}, {last, last}};
  std::vector<int> ranks = ranks_of(study);
  if (last > ranks.back()) ranks.push_back(static_cast<int>(last));
  Script script;
  set_ranks_axis(script, ranks);
  const Extent extent = extent_of(
      Spacing::logarithmic,
      values_of({ideal, law.inside, law.beyond, law.limit, configured_speedups(study)}), bars);
  set_log_axis(script, "speed-up", {extent.lo, extent.hi}, doubling_tics);
  const Extent axis = log_extent({extent.lo, extent.hi});
  Rows boundaries;
  for (const double at : node_boundaries(study)) {
    boundaries.push_back({at, axis.lo});
    boundaries.push_back({at, axis.hi});
    boundaries.push_back({NAN, NAN});
  }
  script.plot(boundaries, "using 1:2 with lines " + line_of(styles[3], 1));
  script.plot(ideal, "using 1:2 with lines " + line_of(ideal_style));
  plot_law(script, figure, law);
  plot_configured(script, figure, study);
  if (!boundaries.empty()) {
    figure.legend.push_back({styles[3], Look::line, "from here on more nodes"});
  } else {
    figure.basis += " All sizes are on the same number of nodes.";
  }
  (law.inside.empty() ? plot_estimates : plot_bars)(script, figure, cut(bars, extent), styles[0]);
  figure.script = script.text();
  figure.numbers =
      grid_of(study, "speed-up", [](const study::Size& size) { return &size.speedup; });
  return figure;
}

Figure efficiency_figure(const StudyReport& study) {
  const char* const title = study.is_strong()
                                ? "Efficiency: the share of the ranks' power that is used"
                                : "Weak efficiency: the share of a rank's rate that is kept";
  if (has_one_size(study)) return missing("efficiency", title, one_size);
  Figure figure{"efficiency", title,
                "1 is ideal. Below 0.5 more than half of the ranks are wasted.", basis_of(study)};
  figure.legend = {{styles[0], Look::line_and_points, "measured"},
                   {ideal_style, Look::line, "ideal"}};
  const auto bars = bars_of(study, [](const study::Size& size) { return size.efficiency; });
  const Extent extent = extent_of(Spacing::linear, {0, 1}, bars);
  Script script;
  set_ranks_axis(script, ranks_of(study));
  set_linear_axis(script, "efficiency", extent);
  script.plot({{bars.front().ranks, 1}, {bars.back().ranks, 1}},
              "using 1:2 with lines " + line_of(ideal_style));
  plot_estimates(script, figure, cut(bars, extent), styles[0]);
  figure.script = script.text();
  figure.numbers =
      grid_of(study, "efficiency", [](const study::Size& size) { return &size.efficiency; });
  return figure;
}

Figure karp_flatt_figure(const StudyReport& study) {
  const char* const title = "Karp-Flatt metric: the serial share that each size shows";
  if (!study.is_strong()) {
    return missing("karp-flatt", title, "it is defined for strong scaling, and this study is weak");
  }
  if (has_one_size(study)) return missing("karp-flatt", title, one_size);
  Figure figure{"karp-flatt", title,
                "Flat: a serial part bounds the speed-up. Rising: overhead grows with the ranks. "
                "Falling: the speed-up is better than a constant serial share allows, for example "
                "because of caches.",
                basis_of(study)};
  figure.legend = {{styles[1], Look::line_and_points, "Karp-Flatt metric"},
                   {ideal_style, Look::line, "no serial part"}};
  std::vector<Bar> bars;
  for (const study::Size& size : study.table.sizes) {
    if (size.karp_flatt) bars.push_back(bar_of(size.ranks, *size.karp_flatt));
  }
  const Extent extent = extent_of(Spacing::linear, {0, 0.01}, bars);
  Script script;
  set_ranks_axis(script, ranks_of(study));
  set_linear_axis(script, "serial share", extent);
  script.plot({{static_cast<double>(study.table.sizes.front().ranks), 0},
               {static_cast<double>(study.table.sizes.back().ranks), 0}},
              "using 1:2 with lines " + line_of(ideal_style));
  plot_estimates(script, figure, cut(bars, extent), styles[1]);
  figure.script = script.text();
  figure.numbers = grid_of(study, "Karp-Flatt metric", [](const study::Size& size) {
    return size.karp_flatt ? &*size.karp_flatt : nullptr;
  });
  return figure;
}

}  // namespace shardstream::report::page
