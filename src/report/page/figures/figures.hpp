// The figures of a study, one function each. If the files do not have the data, the figure tells
// so.
#pragma once

#include <vector>

#include "report/page/details.hpp"
#include "report/page/figures/figure.hpp"
#include "report/studies.hpp"

namespace shardstream::report::page {

/// A run with its details.
struct DetailedRun {
  const RunFile* run;
  Details details;
};

/// A study with the details of one or two runs of each size. Valid as long as the study is.
struct DetailedStudy {
  const StudyReport* study;
  std::vector<DetailedRun> medians;  ///< for each size the launch with the median time
  /// For each size with spans: its timeline run or, without one, the launch with spans whose time
  /// is nearest to the median.
  std::vector<DetailedRun> traced;
};

DetailedStudy with_details(const StudyReport& study);

/// The numbers of ranks of the study's sizes.
std::vector<int> ranks_of(const StudyReport& study);
/// "6 launches, bars are 95 % intervals over launches"
std::string basis_of(const StudyReport& study);
/// The reason why figures of phases are missing for files of old versions.
inline constexpr const char* old_files =
    "the files do not contain the timed part of each phase; runs of newer versions do";
/// Sentences on the launches that figures of `medians` and of `traced` show.
std::string basis_of_medians(const StudyReport& study);
std::string basis_of_traced(const DetailedStudy& detailed);
/// Whether scale made `run` only for its spans.
bool is_timeline_run(const RunFile& run);

// scaling.cpp
Figure time_figure(const StudyReport& study);
Figure speedup_figure(const StudyReport& study);
Figure efficiency_figure(const StudyReport& study);
Figure karp_flatt_figure(const StudyReport& study);

// law.cpp
Figure law_figure(const StudyReport& study);

// causes.cpp
Figure to_result_figure(const StudyReport& study);
Figure host_causes_figure(const DetailedStudy& detailed);
Figure device_causes_figure(const DetailedStudy& detailed);

// overlap.cpp
Figure overlap_figure(const DetailedStudy& detailed);

// machine.cpp
Figure roofline_figure(const DetailedStudy& detailed);
Figure energy_figure(const StudyReport& study);
Figure cost_figure(const StudyReport& study);

// timeline.cpp
/// One figure for each size with spans, the largest size first, at most eight. If there are none,
/// one figure without a picture.
std::vector<Figure> timeline_figures(const DetailedStudy& detailed);

}  // namespace shardstream::report::page
