#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.hpp"
#include "report/page/figures/figures.hpp"
#include "report/words.hpp"

namespace shardstream::report::page {
namespace {

using study::Estimate;
using Rows = std::vector<std::vector<double>>;

constexpr double twice = 2;  // a law is drawn up to twice the largest size

/// ranks, value, low end, high end; without an interval both ends are the value.
Rows rows_of(const StudyReport& study, const std::function<Estimate(const study::Size&)>& of) {
  Rows rows;
  for (const study::Size& size : study.table.sizes) {
    const Estimate estimate = of(size);
    const auto ends = estimate.interval.value_or(study::Interval{estimate.value, estimate.value});
    rows.push_back({static_cast<double>(size.ranks), estimate.value, ends.lo, ends.hi});
  }
  return rows;
}

std::vector<double> values_of(const Rows& rows) {
  std::vector<double> values;
  for (const auto& row : rows) values.insert(values.end(), row.begin() + 1, row.end());
  return values;
}

void plot_estimates(Script& script, const Rows& rows, const Style& style) {
  script.plot(rows, "using 1:2 with lines " + line_of(style, 1.2));
  script.plot(rows, fmt::format("using 1:2:3:4 with yerrorbars {}", points_of(style)));
}

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
    const double on = median_of(study.runs_on(size.ranks),
                                [](const RunFile& run) { return static_cast<double>(run.hosts); });
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

/// The prediction of the fitted law for one new launch: the time (strong) or the efficiency (weak).
/// The number of ranks need not be whole.
Estimate law_at(const StudyReport& study, double ranks) {
  return study.gustafson ? study.gustafson->predict_efficiency(ranks)
                         : study.amdahl->seconds_of_launch(ranks);
}

/// ranks, value, lower and upper end of a prediction. Times are on a logarithmic axis.
std::vector<double> law_row(const StudyReport& study, double ranks, const Estimate& law) {
  const auto ends = law.interval.value_or(study::Interval{law.value, law.value});
  return {ranks, law.value, study.gustafson ? ends.lo : std::max(ends.lo, law.value / 4), ends.hi};
}

/// ranks, value, ends of the law from one number of ranks to another.
Rows law_rows(const StudyReport& study, double from, double to) {
  constexpr int steps = 40;
  Rows rows;
  for (int i = 0; i <= steps; ++i) {
    const double ranks = from * std::pow(to / from, static_cast<double>(i) / steps);
    const Estimate law = law_at(study, ranks);
    if (!study.gustafson && law.value <= 0) continue;
    rows.push_back(law_row(study, ranks, law));
  }
  return rows;
}

std::string basis_of_law(const StudyReport& study) {
  return fmt::format("{}; {}", counted(study.runs.size(), "launch"),
                     study.table.has_intervals()
                         ? "the band holds 95 % of single new launches, if the law holds and "
                           "launches scatter as much as those at the nearest sizes."
                         : "no band, since no size has several launches.");
}

Grid law_grid(const StudyReport& study) {
  Grid grid{{"ranks", study.gustafson ? "efficiency" : "time [s]", "lower end", "upper end", ""}};
  const auto add = [&](int ranks, const char* words) {
    const Estimate law = law_at(study, ranks);
    const auto ends = law.interval.value_or(study::Interval{NAN, NAN});
    grid.rows.push_back({fmt::format("{}", ranks), number_text(law.value, 6),
                         number_text(ends.lo, 6), number_text(ends.hi, 6), words});
  };
  for (const int ranks : ranks_of(study)) add(ranks, "within the study");
  add(2 * ranks_of(study).back(), "extrapolated");
  return grid;
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
  const Rows rows = rows_of(study, [](const study::Size& size) { return size.seconds; });
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
  std::vector<double> values = values_of(rows);
  for (const auto& row : launches) values.push_back(row[1]);
  for (const auto& row : ideal) values.push_back(row[1]);
  set_log_axis(script, "time of a repetition [s]", values);
  if (!has_one_size(study)) script.plot(ideal, "using 1:2 with lines " + line_of(ideal_style));
  script.plot(launches, "using 1:2 with points " + points_of(styles[5], 1.1));
  plot_estimates(script, rows, styles[0]);
  figure.script = script.text();
  figure.legend = {{styles[0], Look::line_and_points, "mean of launches"},
                   {styles[5], Look::points, "each launch"}};
  if (!has_one_size(study)) figure.legend.push_back({ideal_style, Look::line, "ideal"});
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
  const Rows rows = rows_of(study, [](const study::Size& size) { return size.speedup; });
  Rows ideal;
  for (const auto& row : rows) ideal.push_back({row[0], row[0]});
  std::vector<double> values = values_of(rows);
  for (const auto& row : ideal) values.push_back(row[1]);
  Script script;
  set_ranks_axis(script, ranks_of(study));
  set_log_axis(script, "speed-up", values);
  const Extent extent = log_extent(values);
  Rows boundaries;
  for (const double at : node_boundaries(study)) {
    boundaries.push_back({at, extent.lo});
    boundaries.push_back({at, extent.hi});
    boundaries.push_back({NAN, NAN});
  }
  script.plot(boundaries, "using 1:2 with lines " + line_of(styles[3], 1));
  script.plot(ideal, "using 1:2 with lines " + line_of(ideal_style));
  plot_estimates(script, rows, styles[0]);
  figure.script = script.text();
  figure.legend = {{styles[0], Look::line_and_points, "measured"},
                   {ideal_style, Look::line, "ideal"}};
  if (!boundaries.empty()) {
    figure.legend.push_back({styles[3], Look::line, "from here on more nodes"});
  } else {
    figure.basis += " All sizes are on the same number of nodes.";
  }
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
  const Rows rows = rows_of(study, [](const study::Size& size) { return size.efficiency; });
  double top = 1;
  for (const double value : values_of(rows)) top = std::max(top, value);
  Script script;
  set_ranks_axis(script, ranks_of(study));
  script.set(fmt::format("set yrange [0:{:.6g}]", 1.08 * top));
  script.set("set ylabel 'efficiency'");
  script.plot({{rows.front()[0], 1}, {rows.back()[0], 1}},
              "using 1:2 with lines " + line_of(ideal_style));
  plot_estimates(script, rows, styles[0]);
  figure.script = script.text();
  figure.legend = {{styles[0], Look::line_and_points, "measured"},
                   {ideal_style, Look::line, "ideal"}};
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
  Rows rows;
  double low = 0, high = 0.01;
  for (const study::Size& size : study.table.sizes) {
    if (!size.karp_flatt) continue;
    const auto ends = size.karp_flatt->interval.value_or(
        study::Interval{size.karp_flatt->value, size.karp_flatt->value});
    rows.push_back({static_cast<double>(size.ranks), size.karp_flatt->value, ends.lo, ends.hi});
    low = std::min(low, ends.lo);
    high = std::max(high, ends.hi);
  }
  Script script;
  set_ranks_axis(script, ranks_of(study));
  script.set(fmt::format("set yrange [{:.6g}:{:.6g}]", 1.1 * low, 1.1 * high));
  script.set("set ylabel 'serial share'");
  script.plot({{static_cast<double>(study.table.sizes.front().ranks), 0},
               {static_cast<double>(study.table.sizes.back().ranks), 0}},
              "using 1:2 with lines " + line_of(ideal_style));
  plot_estimates(script, rows, styles[1]);
  figure.script = script.text();
  figure.legend = {{styles[1], Look::line_and_points, "Karp-Flatt metric"},
                   {ideal_style, Look::line, "no serial part"}};
  figure.numbers = grid_of(study, "Karp-Flatt metric", [](const study::Size& size) {
    return size.karp_flatt ? &*size.karp_flatt : nullptr;
  });
  return figure;
}

Figure law_figure(const StudyReport& study) {
  const std::string title = study.is_strong()
                                ? "Amdahl's law, fitted, with what it expects next"
                                : "Gustafson's law, fitted, with what it expects next";
  if (has_one_size(study)) return missing("law", title, one_size);
  if (!study.amdahl && !study.gustafson) {
    return missing("law", title,
                   study.is_strong() ? study.amdahl.why_not : study.gustafson.why_not);
  }
  Figure figure{"law", title,
                "Points off the full line deviate from the law. The dashed part is extrapolated "
                "to twice the largest size.",
                basis_of_law(study)};
  const double first = ranks_of(study).front(), last = ranks_of(study).back();
  const Rows inside = law_rows(study, first, last), beyond = law_rows(study, last, twice * last);
  const Rows rows = rows_of(study, [&](const study::Size& size) {
    return study.is_strong() ? size.seconds : size.efficiency;
  });
  std::vector<double> values = values_of(rows);
  for (const auto& part : {inside, beyond}) {
    for (const double value : values_of(part)) values.push_back(value);
  }
  std::vector<int> ranks = ranks_of(study);
  ranks.push_back(2 * ranks.back());
  Script script;
  set_ranks_axis(script, ranks);
  if (study.is_strong()) {
    set_log_axis(script, "time of a repetition [s]", values);
  } else {
    script.set(fmt::format("set yrange [0:{:.6g}]",
                           1.08 * std::max(1.0, *std::ranges::max_element(values))));
    script.set("set ylabel 'efficiency'");
  }
  const std::string fill =
      fmt::format("fs transparent solid 0.18 noborder lc rgb '{}'", styles[1].colour);
  script.plot(inside, "using 1:3:4 with filledcurves " + fill);
  script.plot(beyond, "using 1:3:4 with filledcurves " + fill);
  script.plot(inside, "using 1:2 with lines " + line_of({styles[1].colour, "", 0}));
  script.plot(beyond, "using 1:2 with lines " + line_of(styles[1]));
  script.plot(rows, fmt::format("using 1:2:3:4 with yerrorbars {}", points_of(styles[0])));
  figure.script = script.text();
  figure.legend = {{styles[0], Look::points, "measured"},
                   {{styles[1].colour, "", 0}, Look::line, "law"},
                   {styles[1], Look::line, "law, extrapolated"},
                   {styles[1], Look::band, "95 % of new launches"}};
  figure.numbers = law_grid(study);
  return figure;
}

}  // namespace shardstream::report::page
