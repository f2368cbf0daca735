#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.hpp"
#include "report/page/figures/figures.hpp"
#include "study_folder/names.hpp"

namespace shardstream::report::page {
namespace {

/// The run on `ranks` ranks with spans; null if there is none.
const RunFile* traced_run(const StudyReport& study, const std::vector<const RunFile*>& nearest,
                          int ranks) {
  if (const RunFile* const run = study.timeline_on(static_cast<std::uint64_t>(ranks))) return run;
  const auto found = std::ranges::find_if(
      nearest, [](const RunFile* run) { return run->options.text("measure.timeline") == "true"; });
  return found == nearest.end() ? nullptr : *found;
}

}  // namespace

DetailedStudy with_details(const StudyReport& study) {
  DetailedStudy detailed{&study, {}, {}};
  for (const study::Size& size : study.table.sizes) {
    auto runs = study.runs_on(size.ranks);
    std::ranges::stable_sort(
        runs, {}, [&](const RunFile* run) { return std::abs(run->timing.median - size.median); });
    detailed.medians.push_back({runs.front(), read_details(*runs.front(), Spans::leave)});
    if (const RunFile* const traced = traced_run(study, runs, size.ranks)) {
      detailed.traced.push_back({traced, read_details(*traced, Spans::read)});
    }
  }
  return detailed;
}

bool is_timeline_run(const RunFile& run) {
  return run.study.point == study_folder::timeline_label;
}

std::string basis_of_medians(const StudyReport& study) {
  return fmt::format(
      "{}; at each size, the one with the median time is shown. No intervals, since the parts of "
      "one launch belong together.",
      counted(study.runs.size(), "launch"));
}

std::string basis_of_traced(const DetailedStudy& detailed) {
  const auto timelines = std::ranges::count_if(
      detailed.traced, [](const DetailedRun& each) { return is_timeline_run(*each.run); });
  const std::string launches = counted(detailed.study->runs.size(), "launch");
  if (static_cast<std::size_t>(timelines) == detailed.traced.size()) {
    return fmt::format(
        "At each size, one additional run that recorded its spans, besides the {} of the other "
        "figures. No intervals.",
        launches);
  }
  return fmt::format(
      "{}; at each size, {} that recorded spans and whose time is nearest to the median. No "
      "intervals, since the parts of one launch belong together.",
      launches,
      timelines > 0 ? "the timeline run is shown or, without one, the launch"
                    : "the launch is shown");
}

}  // namespace shardstream::report::page
