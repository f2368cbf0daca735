#include <algorithm>
#include <cmath>

#include "report/page/figures.hpp"

namespace shardstream::report::page {

DetailedStudy with_details(const StudyReport& study) {
  DetailedStudy detailed{&study, {}, {}};
  for (const study::Size& size : study.table.sizes) {
    const auto runs = study.runs_on(size.ranks);
    // A run with a timeline says more; of these, or of all, the one with the median time.
    const auto distance = [&](const RunFile* run) {
      return std::pair(!has_timeline(*run), std::abs(run->seconds - size.median));
    };
    detailed.runs.push_back(*std::ranges::min_element(runs, {}, distance));
    detailed.details.push_back(read_details(*detailed.runs.back()));
  }
  return detailed;
}

}  // namespace shardstream::report::page
