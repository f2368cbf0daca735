#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.hpp"
#include "report/page/figures/figures.hpp"

namespace shardstream::report::page {
namespace {

using Rows = std::vector<std::vector<double>>;

/// The roofs of one size, for a rank, in units of work per second.
struct Roofs {
  double peak = NAN, bandwidth = NAN;  ///< `bandwidth` in GB/s
  std::string peak_name, bandwidth_name;
};

/// The factor from a ceiling's unit to the work's unit; NaN if the ceiling does not count work.
double in_work(const result::Ceiling& ceiling, const std::string& unit) {
  if (unit == "Tflop" && ceiling.unit == "Gflop/s") return 1e-3;
  return unit == "GB" && ceiling.unit == "GB/s" ? 1 : NAN;
}

/// The ceiling of the data transfer, and the lowest other ceiling on the path that counts work.
Roofs roofs_of(const RunFile& run, const StudyReport& study, double ranks) {
  Roofs roofs;
  const result::Ceiling* const way = way_of(run.ceilings);
  if (way == nullptr) return roofs;
  roofs.bandwidth = way->aggregate / ranks;
  roofs.bandwidth_name = way->name;
  for (const result::Ceiling& ceiling : run.ceilings) {
    if (!ceiling.on_path || !(ceiling.aggregate > 0) || &ceiling == way) continue;
    const double rate = ceiling.aggregate / ranks * in_work(ceiling, study.unit);
    if (std::isfinite(rate) && !(rate >= roofs.peak)) {
      roofs.peak = rate;
      roofs.peak_name = ceiling.name;
    }
  }
  return roofs;
}

/// A roof over intensities: the minimum of bandwidth times intensity and peak.
Rows roof_line(const Roofs& roofs, double from, double to) {
  Rows rows;
  constexpr int steps = 60;
  for (int i = 0; i <= steps; ++i) {
    const double x = from * std::pow(to / from, static_cast<double>(i) / steps);
    const double slope = roofs.bandwidth * x;
    rows.push_back({x, std::isfinite(roofs.peak) ? std::min(roofs.peak, slope) : slope});
  }
  return rows;
}

/// GB that all ranks stream in a repetition; the work itself if it is counted in GB.
double streamed(const RunFile& run) {
  constexpr double giga = 1e9;
  return run.streamed > 0 ? run.streamed / giga : run.work_unit == "GB" ? run.work : NAN;
}

/// Points of intensity and rate, with the roofs of the smallest and, if there are several sizes, of
/// the largest size.
void draw_roofs(Figure& figure, const StudyReport& study, const Rows& points, const Roofs& roofs,
                const Roofs& last, bool has_sizes) {
  std::vector<double> xs, ys;
  for (const auto& row : points) {
    xs.push_back(row[0]);
    ys.push_back(row[1]);
  }
  if (std::isfinite(roofs.peak)) xs.push_back(roofs.peak / roofs.bandwidth);
  const Extent extent = log_extent(xs);
  constexpr double around = 4;
  const Extent width = {extent.lo / around, extent.hi * around};
  const Rows line = roof_line(roofs, width.lo, width.hi);
  for (const auto& row : line) ys.push_back(row[1]);
  const bool has_operations = study.unit == "Tflop";
  Script script;
  script.set("set logscale x");
  script.set(fmt::format("set xrange [{:.9g}:{:.9g}]", width.lo, width.hi));
  script.set(fmt::format("set xtics ({})", log_tics(width)));
  script.set(has_operations ? "set xlabel 'intensity [Tflop/GB]'"
                            : "set xlabel 'work per streamed data [GB/GB]'");
  set_log_axis(script, has_operations ? "rate of a rank [Tflop/s]" : "rate of a rank [GB/s]", ys);
  script.plot(line, "using 1:2 with lines " + line_of({styles[1].colour, "", 0}, 2));
  if (has_sizes && last.bandwidth > 0) {
    script.plot(roof_line(last, width.lo, width.hi), "using 1:2 with lines " + line_of(styles[3]));
  }
  script.plot(points, "using 1:2 with points " + points_of(styles[0]));
  figure.script = script.text();
}

Grid roof_grid(const DetailedStudy& detailed) {
  Grid grid{{"ranks", "ceiling", "of all ranks", "unit", "passed by all data"}};
  for (const DetailedRun& median : detailed.medians) {
    const RunFile* const run = median.run;
    for (const result::Ceiling& ceiling : run->ceilings) {
      grid.rows.push_back({fmt::format("{}", run->size.ranks), ceiling.name,
                           number_text(ceiling.aggregate), ceiling.unit,
                           ceiling.on_path ? "yes" : "no"});
    }
  }
  return grid;
}

/// The energy of a repetition in joules, and its GPU hours; NaN if unknown.
double energy_of(const RunFile& run) {
  return run.number("energy") / static_cast<double>(run.timing.repetitions.size());
}

double devices_of(const RunFile& run) {
  return static_cast<double>(run.size.gpus > 0 ? run.size.gpus : run.size.ranks);
}

/// A point for each launch and a line through the medians of the sizes.
void plot_runs(Figure& figure, const StudyReport& study, const std::string& label,
               const std::function<double(const RunFile&)>& of) {
  Rows points, medians;
  double top = 0;
  for (const RunFile& run : study.runs) {
    const double value = of(run);
    if (!std::isfinite(value)) continue;
    points.push_back({static_cast<double>(run.size.ranks), value});
    top = std::max(top, value);
  }
  for (const int ranks : ranks_of(study)) {
    const double median = median_of(study.runs_on(ranks), of);
    if (std::isfinite(median)) medians.push_back({static_cast<double>(ranks), median});
  }
  Script script;
  set_ranks_axis(script, ranks_of(study));
  script.set(fmt::format("set yrange [0:{:.6g}]", top > 0 ? 1.12 * top : 1));
  script.set(fmt::format("set ylabel '{}'", label));
  script.plot(points, "using 1:2 with points " + points_of(styles[5], 1.1));
  script.plot(medians, fmt::format("using 1:2 with linespoints {} pt {} ps 0.8", line_of(styles[0]),
                                   styles[0].point));
  figure.script = script.text();
  figure.legend = {{styles[0], Look::line_and_points, "median"},
                   {styles[5], Look::points, "each launch"}};
}

}  // namespace

Figure roofline_figure(const DetailedStudy& detailed) {
  const StudyReport& study = *detailed.study;
  Figure figure{"roofline", "Roofline: the rate of a rank below its measured ceilings",
                "A point on the line is as fast as the machine allows. On the slope the data "
                "transfer limits, on the flat part the arithmetic.",
                fmt::format("{}, each a point; roofs and bytes are those of the launch with the "
                            "median time at each size, measured in it.",
                            counted(study.runs.size(), "launch"))};
  const DetailedRun &first = detailed.medians.front(), &final = detailed.medians.back();
  const bool has_sizes = detailed.medians.size() > 1;
  figure.numbers = roof_grid(detailed);
  Rows points;
  for (const DetailedRun& median : detailed.medians) {
    const double gigabytes = streamed(*median.run);
    for (const RunFile* run : study.runs_on(static_cast<int>(median.run->size.ranks))) {
      const double ranks = static_cast<double>(run->size.ranks);
      points.push_back({run->work / gigabytes, run->work / run->timing.median / ranks});
    }
  }
  const Roofs roofs = roofs_of(*first.run, study, static_cast<double>(first.run->size.ranks));
  const Roofs last = roofs_of(*final.run, study, static_cast<double>(final.run->size.ranks));
  const bool known = std::ranges::all_of(
      points, [](const auto& row) { return std::isfinite(row[0]) && row[0] > 0; });
  if (!known || !(roofs.bandwidth > 0)) {
    return missing(figure.id, figure.title,
                   known ? "the files have no ceiling on the path of the data"
                         : "the work is not counted in operations or bytes");
  }
  draw_roofs(figure, study, points, roofs, last, has_sizes);
  const std::string names =
      roofs.bandwidth_name + (roofs.peak_name.empty() ? "" : " and " + roofs.peak_name);
  figure.legend = {{styles[0], Look::points, "each launch"},
                   {{styles[1].colour, "", 0},
                    Look::line,
                    fmt::format("{}, on {}", names, counted(first.run->size.ranks, "rank"))}};
  if (has_sizes && last.bandwidth > 0) {
    figure.legend.push_back(
        {styles[3], Look::line,
         fmt::format("a rank's share of {}", counted(final.run->size.ranks, "rank"))});
  }
  return figure;
}

Figure energy_figure(const StudyReport& study) {
  Figure figure{"energy", "Energy to solution of all GPUs",
                study.is_strong()
                    ? "Flat is ideal. More ranks cost more energy if they wait."
                    : "Flat is ideal: energy for each unit of work, which grows with the ranks.",
                fmt::format("{}; energy of a repetition, read from the GPUs.",
                            counted(study.runs.size(), "launch"))};
  const bool known = std::ranges::any_of(
      study.runs, [](const RunFile& run) { return std::isfinite(energy_of(run)); });
  if (!known) {
    return missing(figure.id, figure.title,
                   "the files have no energy: the runs had no GPU that measures it, or were too "
                   "short for a sample");
  }
  const auto shown = [&](const RunFile& run) {
    return study.is_strong() ? energy_of(run) : energy_of(run) / run.work;
  };
  plot_runs(figure, study,
            study.is_strong() ? "energy of a repetition [J]" : "energy per unit of work [J]",
            shown);
  figure.numbers.header = {"ranks", "launches", "energy [J]",
                           fmt::format("energy per work [J/{}]", study.unit)};
  for (const study::Size& size : study.table.sizes) {
    const double joules = median_of(study.runs_on(size.ranks), energy_of);
    figure.numbers.rows.push_back({fmt::format("{}", size.ranks), fmt::format("{}", size.launches),
                                   number_text(joules, 5), number_text(joules / size.work, 5)});
  }
  return figure;
}

Figure cost_figure(const StudyReport& study) {
  const bool has_gpus = study.runs.front().size.gpus > 0;
  const char* const unit = has_gpus ? "GPU-hours" : "rank-hours";
  const char* const short_unit = has_gpus ? "GPU-seconds" : "rank-seconds";
  Figure figure{
      "cost", "Cost of a repetition in time of all devices",
      study.is_strong() ? "Flat is ideal. A rise is what the speed-up costs."
                        : "Flat is ideal: cost for each unit of work.",
      fmt::format("{}; start-up excluded, see Numbers.", counted(study.runs.size(), "launch"))};
  constexpr double hour = 3600;
  const auto cost = [](const RunFile& run) { return devices_of(run) * run.timing.median / hour; };
  double largest = 0;
  for (const RunFile& run : study.runs) largest = std::max(largest, cost(run));
  const bool is_small = largest < 0.1;
  const auto shown = [&](const RunFile& run) {
    return cost(run) * (is_small ? hour : 1) / (study.is_strong() ? 1 : run.work);
  };
  plot_runs(figure, study,
            fmt::format("{} [{}]", study.is_strong() ? "cost" : "cost per unit",
                        is_small ? short_unit : unit),
            shown);
  figure.numbers.header = {"ranks", "launches", fmt::format("repetition [{}]", unit),
                           fmt::format("whole run with start-up [{}]", unit)};
  for (const study::Size& size : study.table.sizes) {
    const auto runs = study.runs_on(size.ranks);
    const auto whole = [](const RunFile& run) { return devices_of(run) * run.to_result() / hour; };
    figure.numbers.rows.push_back({fmt::format("{}", size.ranks), fmt::format("{}", size.launches),
                                   number_text(median_of(runs, cost)),
                                   number_text(median_of(runs, whole))});
  }
  return figure;
}

}  // namespace shardstream::report::page
