#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "core/text.hpp"
#include "report/page/figures/figures.hpp"
#include "study/causes.hpp"

namespace shardstream::report::page {
namespace {

using Rows = std::vector<std::vector<double>>;

/// A part of the time to result, with its time at each size in seconds.
struct TimePart {
  std::string name;
  std::vector<double> seconds;
};

double known(double seconds) {
  return std::isfinite(seconds) ? std::max(0.0, seconds) : 0;
}

/// The time of collectives on the main thread of the slowest rank, in all timed repetitions.
double combining(const RunFile& run) {
  double seconds = 0;
  for (const PhaseTime& phase : run.phases) {
    if (phase.track == "main" && phase.kind == "communication") seconds += phase.seconds;
  }
  return seconds;
}

/// The time between two steps of the start. The earlier step may be missing in a run.
double between(const RunFile& run, std::initializer_list<const char*> earlier, const char* step) {
  double before = 0;
  for (const char* name : earlier) before = std::max(before, known(run.step(name)));
  return std::isfinite(run.step(step)) ? run.step(step) - before : 0;
}

std::vector<TimePart> parts_of(const StudyReport& study) {
  using Seconds = std::function<double(const RunFile&)>;
  const std::vector<std::pair<std::string, Seconds>> parts = {
      {"start-up",
       [](const RunFile& run) {
         return known(run.launcher.start) +
                std::max({known(run.step("mpi")), known(run.step("device")),
                          known(run.step("communicator")), known(run.step("ceilings")),
                          known(run.step("allocate"))});
       }},
      {"reading before the work",
       [](const RunFile& run) {
         return between(run, {"mpi", "device", "communicator", "ceilings", "allocate"}, "load");
       }},
      {"warm-up",
       [](const RunFile& run) {
         return between(run, {"communicator", "ceilings", "allocate", "load"}, "begin");
       }},
      {"work", [](const RunFile& run) { return between(run, {"begin"}, "work") - combining(run); }},
      {"combine", combining},
      {"writing", [](const RunFile& run) {
         return between(run, {"work"}, "store") + known(run.launcher.end);
       }}};
  std::vector<TimePart> found;
  for (const auto& [name, seconds] : parts) {
    TimePart part{name, {}};
    for (const study::Size& size : study.table.sizes) {
      part.seconds.push_back(known(median_of(study.runs_on(size.ranks), seconds)));
    }
    found.push_back(std::move(part));
  }
  return found;
}

/// The fill of the box of part i: parts differ in pattern and in colour.
std::string fill_of(std::size_t i) {
  static constexpr std::array<const char*, 6> fills = {"solid 0.85", "pattern 4", "solid 0.3",
                                                       "solid 1",    "pattern 5", "pattern 2"};
  return fmt::format("fs {} border lc rgb '{}' lw 1", fills[i], styles[i].colour);
}

/// The useful time of each rank's host threads: the mean of its working threads.
std::vector<double> host_useful(const Details& details, double wall) {
  std::map<int, std::map<std::string, double>> tracks;  // useful seconds, by rank
  std::map<int, double> main, idle;
  for (const RankPhase& phase : details.phases) {
    if (phase.on_device || !(phase.timed > 0)) continue;
    if (phase.track == "main") {
      (phase.kind == "useful" ? main : idle)[phase.rank] += phase.timed;
    } else if (phase.kind != "waiting" && phase.kind != "communication") {
      tracks[phase.rank][phase.track] += phase.timed;
    }
  }
  std::vector<double> useful;
  if (tracks.empty()) {  // a single thread does everything; its phases may contain waiting
    for (const auto& [rank, seconds] : main) {
      useful.push_back(std::min(seconds, std::max(0.0, wall - idle[rank])));
    }
    return useful;
  }
  for (const auto& [rank, threads] : tracks) {
    double sum = 0;
    for (const auto& [track, seconds] : threads) sum += seconds;
    useful.push_back(sum / static_cast<double>(threads.size()));
  }
  return useful;
}

/// The time of each rank's device in kernels, and in any activity. Without spans, kernels come from
/// the sums of phases, and the time in any activity is empty.
struct DeviceTimes {
  std::vector<double> kernels, active;
};

/// From spans, within the phases of the main threads that occur only in timed repetitions.
DeviceTimes device_times(const Details& details) {
  const PhaseIndex phases(details);
  std::int64_t begin = INT64_MAX, end = 0;
  for (const Span& span : details.spans) {
    const RankPhase* const phase = phases.find(span);
    if (phase == nullptr || span.track != "main" || !(phase->timed > 0)) continue;
    end = std::max(end, span.end);
    if (phase->is_always_timed()) begin = std::min(begin, span.start);
  }
  std::map<int, std::vector<study::TimeSpan>> kernels, active;
  for (const Span& span : details.spans) {
    const RankPhase* const phase = phases.find(span);
    if (phase == nullptr || !phase->on_device) continue;
    if (span.start < begin || span.start >= end) continue;
    active[span.rank].push_back({span.start, span.end});
    if (phase->kind == "useful") kernels[span.rank].push_back({span.start, span.end});
  }
  DeviceTimes times;
  for (auto& [rank, spans] : active) {
    times.kernels.push_back(study::union_of(std::move(kernels[rank])));
    times.active.push_back(study::union_of(std::move(spans)));
  }
  return times;
}

/// Without spans. The kernels of a rank run in one stream, so they do not overlap.
std::vector<double> kernel_sums(const Details& details) {
  std::map<int, double> kernels;
  for (const RankPhase& phase : details.phases) {
    if (phase.on_device && phase.kind == "useful") kernels[phase.rank] += known(phase.timed);
  }
  std::vector<double> sums;
  for (const auto& [rank, seconds] : kernels) sums.push_back(seconds);
  return sums;
}

/// Lines of shares over the numbers of ranks. Each row has the number of ranks, then a share for
/// each of `names`; the last share is the total.
void plot_shares(Figure& figure, const StudyReport& study, const Rows& rows,
                 const std::vector<std::string>& names) {
  Script script;
  set_ranks_axis(script, ranks_of(study));
  double top = 1;
  for (const auto& row : rows) {
    for (std::size_t i = 1; i < row.size(); ++i)
      top = std::isfinite(row[i]) ? std::max(top, row[i]) : top;
  }
  script.set(fmt::format("set yrange [0:{:.6g}]", 1.06 * top));
  script.set("set ylabel 'share'");
  figure.numbers.header = {"ranks"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::size_t style = i + 1 == names.size() ? 0 : i + 1;
    script.plot(rows, fmt::format("using 1:{} with linespoints {} pt {} ps 0.8", i + 2,
                                  line_of(styles[style], i + 1 == names.size() ? 2.4 : 1.4),
                                  styles[style].point));
    figure.legend.push_back({styles[style], Look::line_and_points, names[i]});
    figure.numbers.header.push_back(names[i]);
  }
  for (const auto& row : rows) {
    std::vector<std::string> cells = {fmt::format("{}", row[0])};
    for (std::size_t i = 1; i < row.size(); ++i) cells.push_back(number_text(row[i], 6));
    figure.numbers.rows.push_back(std::move(cells));
  }
  figure.script = script.text();
}

/// The useful time per unit of work at the smallest size, divided by that at this size.
double computation(const std::vector<double>& reference, double reference_work,
                   const std::vector<double>& here, double work) {
  double before = 0, now = 0;
  for (const double seconds : reference) before += seconds;
  for (const double seconds : here) now += seconds;
  return (before / reference_work) / (now / work);
}

double work_of(const RunFile& run) {
  return run.work * static_cast<double>(run.timing.repetitions.size());
}

}  // namespace

Figure to_result_figure(const StudyReport& study) {
  Figure figure{
      "to-result", "From the start of the launcher to the result",
      "Work is the time of all timed repetitions, whose number may differ between sizes "
      "(see the table of launches). Reading and writing inside it overlap with computing.",
      fmt::format("{}; medians of the launches at each size, without intervals.",
                  counted(study.runs.size(), "launch"))};
  const std::vector<TimePart> parts = parts_of(study);
  Script script;
  std::string tics;
  figure.numbers.header = {"ranks"};
  for (const TimePart& part : parts) figure.numbers.header.push_back(part.name + " [s]");
  std::vector<double> tops(study.table.sizes.size());
  for (std::size_t i = 0; i < study.table.sizes.size(); ++i) {
    const int ranks = study.table.sizes[i].ranks;
    tics += fmt::format("{}'{}' {}", i == 0 ? "" : ",", ranks, i);
    figure.numbers.rows.push_back({fmt::format("{}", ranks)});
  }
  for (std::size_t part = 0; part < parts.size(); ++part) {
    Rows boxes;
    for (std::size_t i = 0; i < tops.size(); ++i) {
      const double x = static_cast<double>(i), seconds = parts[part].seconds[i];
      boxes.push_back({x, tops[i], x - 0.35, x + 0.35, tops[i], tops[i] + seconds});
      tops[i] += seconds;
      figure.numbers.rows[i].push_back(number_text(seconds));
    }
    script.plot(boxes, fmt::format("using 1:2:3:4:5:6 with boxxyerror {} lc rgb '{}'",
                                   fill_of(part), styles[part].colour));
    figure.legend.push_back({styles[part], Look::box, parts[part].name});
  }
  const double top = *std::ranges::max_element(tops);
  if (!(top > 0)) return missing("to-result", figure.title, "the files have no times of the start");
  script.set(fmt::format("set xtics ({})", tics));
  script.set(fmt::format("set xrange [-0.6:{}]", static_cast<double>(tops.size()) - 0.4));
  script.set(fmt::format("set yrange [0:{:.6g}]", 1.05 * top));
  script.set("set xlabel 'ranks'");
  script.set("set ylabel 'time [s]'");
  figure.script = script.text();
  return figure;
}

Figure host_causes_figure(const DetailedStudy& detailed) {
  const StudyReport& study = *detailed.study;
  Figure figure{"host-causes", "Efficiency by cause: host threads",
                "The three causes multiply to the total, the thick line; the first two of them to "
                "the parallel efficiency. The lowest cause shows where to look first.",
                basis_of_medians(study)};
  Rows rows;
  std::string why = old_files;
  std::vector<double> reference;
  double reference_work = 0;
  for (const auto& [run, details] : detailed.medians) {
    const std::vector<double> useful = host_useful(details, run->wall());
    const auto causes = study::find_causes(useful, run->wall());
    if (!causes) {
      if (details.knows_timed) why = causes.why_not;
      continue;
    }
    if (reference.empty()) {
      reference = useful;
      reference_work = work_of(*run);
    }
    const double scaling = computation(reference, reference_work, useful, work_of(*run));
    rows.push_back({static_cast<double>(run->size.ranks), causes->balance, causes->busy, scaling,
                    causes->total() * scaling});
  }
  if (rows.empty()) return missing(figure.id, figure.title, why);
  plot_shares(figure, study, rows,
              {"balance of ranks", "busy share of the busiest", "computation scaling", "total"});
  return figure;
}

Figure device_causes_figure(const DetailedStudy& detailed) {
  const StudyReport& study = *detailed.study;
  Figure figure{
      "device-causes", "Efficiency by cause: share of the time in which kernels run",
      "The causes multiply to the total, the thick line. The lowest cause shows where to look "
      "first. A low total is expected if the host link or the file is the limit.",
      basis_of_medians(study)};
  Rows rows;
  std::string why = old_files;
  const bool has_spans = detailed.traced.size() == detailed.medians.size() &&
                         std::ranges::none_of(detailed.traced, [](const DetailedRun& each) {
                           return each.details.spans.empty();
                         });
  if (has_spans) figure.basis = basis_of_traced(detailed);
  for (const auto& [run, details] : has_spans ? detailed.traced : detailed.medians) {
    const double ranks = static_cast<double>(run->size.ranks);
    if (details.knows_timed) why = "no kernels of a device were recorded";
    if (has_spans) {
      const DeviceTimes times = device_times(details);
      const auto causes = study::find_device_causes(times.kernels, times.active, run->wall());
      if (!causes) continue;
      rows.push_back({ranks, causes->balance, causes->overlap, causes->active, causes->total()});
    } else if (const auto causes = study::find_causes(kernel_sums(details), run->wall())) {
      rows.push_back({ranks, causes->balance, causes->busy, causes->total()});
    }
  }
  if (rows.empty()) return missing(figure.id, figure.title, why);
  if (has_spans) {
    plot_shares(figure, study, rows,
                {"balance of devices", "kernels' share of activity", "active share", "total"});
  } else {
    plot_shares(figure, study, rows, {"balance of devices", "busy share of the busiest", "total"});
    figure.basis += " Copies are not separated: that needs a timeline at each size.";
  }
  return figure;
}

}  // namespace shardstream::report::page
