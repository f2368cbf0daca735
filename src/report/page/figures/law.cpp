#include "report/page/figures/law.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/text.hpp"
#include "report/page/figures/estimates.hpp"
#include "report/page/figures/figures.hpp"

namespace shardstream::report::page {
namespace {

using study::Estimate;

/// The line of a law inside the sizes of the study, and that of its limit.
constexpr Style inside_style = {styles[1].colour, "", 0};
constexpr Style limit_style = {styles[1].colour, "2 3", 0};

/// The fitted law for one new launch: the time (strong) or the efficiency (weak), with ends of the
/// interval that are not negative. The number of ranks need not be whole.
Estimate law_at(const StudyReport& study, double ranks) {
  Estimate law = study.laws.gustafson ? study.laws.gustafson->predict_efficiency(ranks)
                                      : study.laws.amdahl->seconds_of_launch(ranks);
  if (law.interval) law.interval->lo = std::max(law.interval->lo, 0.0);
  return law;
}

/// The estimates of a law from one number of ranks to another, as far as they are positive.
std::vector<Bar> law_bars(const StudyReport& study, double from, double to) {
  constexpr int steps = 40;
  std::vector<Bar> bars;
  for (int i = 0; i <= steps; ++i) {
    const double ranks = from * std::pow(to / from, static_cast<double>(i) / steps);
    const Estimate law = law_at(study, ranks);
    if (law.value > 0) bars.push_back(bar_of(ranks, law));
  }
  return bars;
}

/// The law's time or efficiency as a speed-up.
double speedup_of(const StudyReport& study, const Bar& law) {
  if (study.laws.gustafson) return law.ranks * law.value;
  return study.laws.amdahl->reference * study.laws.amdahl->reference_seconds.value / law.value;
}

std::string name_of_law(const StudyReport& study) {
  return study.is_strong() ? "Amdahl's law" : "Gustafson's law";
}

std::string basis_of_law(const StudyReport& study) {
  const std::string launches = counted(study.runs.size(), "launch");
  if (study.is_law_rejected()) {
    return launches + "; the law is not extrapolated, since it does not fit.";
  }
  return fmt::format("{}; {}", launches,
                     study.table.has_intervals()
                         ? "the band holds 95 % of single new launches, if the law holds and "
                           "launches scatter as much as those at the nearest sizes."
                         : "no band, since no size has several launches.");
}

Grid law_grid(const StudyReport& study) {
  Grid grid{
      {"ranks", study.laws.gustafson ? "efficiency" : "time [s]", "lower end", "upper end", ""}};
  const auto add = [&](int ranks, const Estimate& law, const char* words) {
    const auto ends = law.interval.value_or(study::Interval{NAN, NAN});
    grid.rows.push_back({fmt::format("{}", ranks), number_text(law.value, 6),
                         number_text(ends.lo, 6), number_text(ends.hi, 6), words});
  };
  for (const int ranks : ranks_of(study)) add(ranks, law_at(study, ranks), "within the study");
  if (study.laws.expected) {
    const study::Extrapolation& next = *study.laws.expected;
    add(next.ranks, next.seconds.value_or(next.efficiency), "extrapolated");
  }
  return grid;
}

/// The law inside the sizes and beyond them. Without a prediction there is nothing beyond them. A
/// rejected law has no intervals, which assume that it holds.
struct Parts {
  std::vector<Bar> inside, beyond;
};

Parts parts_of_law(const StudyReport& study) {
  const double first = ranks_of(study).front(), last = ranks_of(study).back();
  Parts parts{law_bars(study, first, last), {}};
  if (study.is_law_rejected()) {
    for (Bar& bar : parts.inside) bar.lo = bar.hi = bar.value;
  }
  if (study.laws.expected) parts.beyond = law_bars(study, last, study.laws.expected->ranks);
  for (Bar& bar : parts.beyond) {  // as Extrapolation: no efficiency above 1
    bar.value = study.laws.gustafson
                    ? std::min(bar.value, 1.0)
                    : std::max(bar.value, study.laws.amdahl->ideal_seconds(bar.ranks));
    bar.lo = std::min(bar.lo, bar.value);
    bar.hi = std::max(bar.hi, bar.value);
  }
  return parts;
}

void draw_law(Script& script, Figure& figure, const StudyReport& study, const Extent& extent) {
  const Parts parts = parts_of_law(study);
  const Rows inside = cut(parts.inside, extent).bars, beyond = cut(parts.beyond, extent).bars;
  const std::string fill =
      fmt::format("fs transparent solid 0.18 noborder lc rgb '{}'", styles[1].colour);
  if (!study.is_law_rejected() && study.table.has_intervals()) {
    script.plot(inside, "using 1:3:4 with filledcurves " + fill);
    script.plot(beyond, "using 1:3:4 with filledcurves " + fill);
    figure.legend.push_back({styles[1], Look::band, "95 % of new launches"});
  }
  script.plot(inside, "using 1:2 with lines " + line_of(inside_style));
  script.plot(beyond, "using 1:2 with lines " + line_of(styles[1]));
  figure.legend.push_back({inside_style, Look::line, name_of_law(study)});
  if (!beyond.empty()) figure.legend.push_back({styles[1], Look::line, "extrapolated"});
}

}  // namespace

Figure law_figure(const StudyReport& study) {
  const std::string name = name_of_law(study);
  if (study.table.sizes.size() < 2) {
    return missing("law", name + ", fitted", "the runs have one number of ranks only");
  }
  if (study.fit() == nullptr) return missing("law", name + ", fitted", study.laws.expected.why_not);
  Figure figure{"law",
                name + (study.is_law_rejected() ? " does not fit these times"
                        : study.laws.expected   ? ", fitted, with what it expects next"
                                                : ", fitted"),
                "Points off the full line deviate from the law.", basis_of_law(study)};
  if (study.laws.expected) {
    figure.how_to_read += " The dashed part is extrapolated to twice the largest size.";
  }
  const Parts parts = parts_of_law(study);
  const auto measured = bars_of(study, [&](const study::Size& size) {
    return study.is_strong() ? size.seconds : size.efficiency;
  });
  std::vector<Bar> bars = measured;
  bars.insert(bars.end(), parts.inside.begin(), parts.inside.end());
  bars.insert(bars.end(), parts.beyond.begin(), parts.beyond.end());
  std::vector<int> ranks = ranks_of(study);
  if (study.laws.expected) ranks.push_back(study.laws.expected->ranks);
  const Extent extent = study.is_strong() ? extent_of(Spacing::logarithmic, {}, bars)
                                          : extent_of(Spacing::linear, {0, 1}, bars);
  Script script;
  set_ranks_axis(script, ranks);
  if (study.is_strong()) {
    set_log_axis(script, "time of a repetition [s]", {extent.lo, extent.hi});
  } else {
    set_linear_axis(script, "efficiency", extent);
  }
  figure.legend = {{styles[0], Look::points, "measured"}};
  draw_law(script, figure, study, extent);
  plot_bars(script, figure, cut(measured, extent), styles[0]);
  figure.script = script.text();
  figure.numbers = law_grid(study);
  return figure;
}

LawLines law_of_speedups(const StudyReport& study) {
  if (!study.laws.expected) return {};
  LawLines law;
  const study::Fit& fit = *study.fit();
  const char* const caution = fit.verdict == study::FitVerdict::fits      ? ""
                              : fit.verdict == study::FitVerdict::unclear ? " (it may not fit)"
                                                                          : " (untested)";
  law.name = name_of_law(study) + caution;
  law.share = study.is_strong()
                  ? fmt::format("s = {:.3g}", study.laws.amdahl->serial_share.value)
                  : fmt::format("s' = {:.3g}", study.laws.gustafson->serial_share.value);
  const Parts parts = parts_of_law(study);
  for (const Bar& bar : parts.inside) law.inside.push_back({bar.ranks, speedup_of(study, bar)});
  for (const Bar& bar : parts.beyond) law.beyond.push_back({bar.ranks, speedup_of(study, bar)});
  const double last = study.laws.expected->ranks;
  if (!study.laws.expected->max_speedup) return law;
  const double limit = *study.laws.expected->max_speedup;
  const bool is_shown = limit <= 2 * last;
  law.limit_words =
      fmt::format("{}{:.3g}", study.table.anchor == 1 ? "1/s: " : "on many ranks: ", limit);
  if (is_shown) law.limit = {{static_cast<double>(study.table.anchor), limit}, {last, limit}};
  return law;
}

Rows configured_speedups(const StudyReport& study) {
  Rows rows;
  if (!study.laws.configured) return rows;
  for (const study::Size& size : study.laws.configured->expected.sizes) {
    rows.push_back({static_cast<double>(size.ranks), size.speedup.value});
  }
  return rows;
}

void plot_law(Script& script, Figure& figure, const LawLines& law) {
  script.plot(law.inside, "using 1:2 with lines " + line_of(inside_style));
  script.plot(law.beyond, "using 1:2 with lines " + line_of(styles[1]));
  script.plot(law.limit, "using 1:2 with lines " + line_of(limit_style));
  if (law.inside.empty()) return;
  figure.legend.push_back({inside_style, Look::line, fmt::format("{}, {}", law.name, law.share)});
  figure.legend.push_back({styles[1], Look::line, "extrapolated"});
  if (law.limit_words.empty()) return;
  figure.legend.push_back({limit_style, Look::line,
                           fmt::format("its limit {}{}", law.limit_words,
                                       law.limit.empty() ? ", beyond the figure" : "")});
}

void plot_law_of_many(Script& script, const LawLines& law, const Style& style) {
  constexpr double thin = 0.8;
  script.plot(law.inside, "using 1:2 with lines " + line_of(style));
  script.plot(law.beyond, "using 1:2 with lines " + line_of(style, thin));
  script.plot(law.limit, "using 1:2 with lines " + line_of({style.colour, "2 4", 0}, 1));
}

}  // namespace shardstream::report::page
