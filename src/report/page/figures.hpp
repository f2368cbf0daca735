// The figures of a study, a function each. If the files lack the data, the figure says so.
#pragma once

#include <vector>

#include "report/page/details.hpp"
#include "report/page/figure.hpp"
#include "report/studies.hpp"

namespace shardstream::report::page {

/// A study with the details of one run for each size: the launch with the median time.
struct DetailedStudy {
  const StudyReport* study;
  std::vector<const RunFile*> runs;  ///< one for each size
  std::vector<Details> details;      ///< of these runs
};

DetailedStudy with_details(const StudyReport& study);

/// The numbers of ranks of the study's sizes.
std::vector<int> ranks_of(const StudyReport& study);
/// "6 launches, bars are 95 % intervals over launches"
std::string basis_of(const StudyReport& study);
/// "numbers of the launch with the median time at each size"
std::string basis_of_medians(const StudyReport& study);

// scaling_figures.cpp
Figure time_figure(const StudyReport& study);
Figure speedup_figure(const StudyReport& study);
Figure efficiency_figure(const StudyReport& study);
Figure karp_flatt_figure(const StudyReport& study);
Figure law_figure(const StudyReport& study);

// cause_figures.cpp
Figure to_result_figure(const StudyReport& study);
Figure host_causes_figure(const DetailedStudy& detailed);
Figure device_causes_figure(const DetailedStudy& detailed);
Figure overlap_figure(const DetailedStudy& detailed);

// machine_figures.cpp
Figure roofline_figure(const DetailedStudy& detailed);
Figure energy_figure(const StudyReport& study);
Figure cost_figure(const StudyReport& study);

// timeline_figure.cpp
/// One for each of the three largest sizes that have spans; at least one, which may be missing.
std::vector<Figure> timeline_figures(const DetailedStudy& detailed);

}  // namespace shardstream::report::page
