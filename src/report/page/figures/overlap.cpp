#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "report/page/figures/figures.hpp"
#include "study/causes.hpp"

namespace shardstream::report::page {
namespace {

using Stages = std::map<std::string, double>;  // busy seconds

/// The stages of a rank's pipeline; threads of one kind are one stage.
Stages stages_of(const Details& details, int rank) {
  std::map<std::string, double> tracks;
  for (const RankPhase& phase : details.phases) {
    const bool counts =
        phase.kind != "waiting" && (phase.track != "main" || phase.kind != "useful");
    if (phase.rank == rank && counts && phase.timed > 0) tracks[phase.track] += phase.timed;
  }
  Stages stages;
  for (const auto& [track, seconds] : tracks) {
    const std::string kind = kind_of_track(track);
    double& longest = stages[kind == "main" ? "combine" : kind];
    longest = std::max(longest, seconds);
  }
  return stages;
}

/// The overlaps of the ranks of one size.
struct Overlaps {
  double ranks = 0, mean = 0, lo = 0, hi = 0;
  Stages busy = {};  ///< means over the ranks
  double wall = 0;
  std::string why_not = {};  ///< if no rank has an overlap
};

Overlaps overlaps_of(const DetailedRun& each) {
  Overlaps found{.ranks = static_cast<double>(each.run->size.ranks), .wall = each.run->wall()};
  std::set<int> ranks;
  for (const RankPhase& phase : each.details.phases) ranks.insert(phase.rank);
  std::vector<double> overlaps;
  for (const int rank : ranks) {
    std::vector<double> busy;
    for (const auto& [name, seconds] : stages_of(each.details, rank)) {
      busy.push_back(seconds);
      found.busy[name] += seconds / static_cast<double>(ranks.size());
    }
    const auto overlap = study::find_overlap(busy, found.wall);
    if (overlap) {
      overlaps.push_back(*overlap);
    } else {
      found.why_not = overlap.why_not;
    }
  }
  if (!each.details.knows_timed || (ranks.empty() && found.why_not.empty())) {
    found.why_not = old_files;
  }
  if (overlaps.empty()) return found;
  found.why_not.clear();
  for (const double overlap : overlaps) found.mean += overlap;
  found.mean /= static_cast<double>(overlaps.size());
  std::tie(found.lo, found.hi) = std::pair(std::ranges::min(overlaps), std::ranges::max(overlaps));
  return found;
}

Grid grid_of(const std::vector<Overlaps>& sizes) {
  std::set<std::string> names;
  for (const Overlaps& size : sizes) {
    for (const auto& [name, seconds] : size.busy) names.insert(name);
  }
  Grid grid{{"ranks", "overlap, mean of the ranks", "minimum", "maximum", "time [s]"}};
  for (const auto& name : names) grid.header.push_back(name + " busy, mean [s]");
  for (const Overlaps& size : sizes) {
    std::vector<std::string> cells = {fmt::format("{}", size.ranks)};
    for (const double value : {size.mean, size.lo, size.hi}) {
      cells.push_back(size.why_not.empty() ? number_text(value) : "-");
    }
    cells.push_back(number_text(size.wall));
    for (const std::string& name : names) {
      const auto stage = size.busy.find(name);
      cells.push_back(stage == size.busy.end() ? "-" : number_text(stage->second));
    }
    grid.rows.push_back(std::move(cells));
  }
  return grid;
}

}  // namespace

Figure overlap_figure(const DetailedStudy& detailed) {
  const StudyReport& study = *detailed.study;
  Figure figure{"overlap", "How well the stages of the pipeline overlap",
                "1: a repetition takes as long as its longest stage. 0: the stages work one after "
                "another. Bars reach from the minimum to the maximum of the ranks.",
                basis_of_medians(study)};
  std::vector<Overlaps> sizes;
  std::vector<std::vector<double>> rows;
  double low = 0;
  for (const DetailedRun& each : detailed.medians) {
    const Overlaps& size = sizes.emplace_back(overlaps_of(each));
    if (!size.why_not.empty()) continue;
    rows.push_back({size.ranks, size.mean, size.lo, size.hi});
    low = std::min(low, size.lo);
  }
  if (rows.empty()) return missing(figure.id, figure.title, sizes.back().why_not);
  Script script;
  set_ranks_axis(script, ranks_of(study));
  script.set(fmt::format("set yrange [{:.6g}:1.08]", 1.1 * low));
  script.set("set ylabel 'overlap'");
  script.plot({{rows.front()[0], 1}, {rows.back()[0], 1}},
              "using 1:2 with lines " + line_of(ideal_style));
  script.plot(rows, "using 1:2:3:4 with yerrorbars " + points_of(styles[2]));
  script.plot(rows, "using 1:2 with lines " + line_of(styles[2]));
  figure.script = script.text();
  figure.legend = {{styles[2], Look::line_and_points, "mean of the ranks"},
                   {ideal_style, Look::line, "ideal"}};
  figure.numbers = grid_of(sizes);
  return figure;
}

}  // namespace shardstream::report::page
