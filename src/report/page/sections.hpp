// The parts of a study's section that are text and tables, as HTML.
#pragma once

#include <string>
#include <vector>

#include "report/page/figures.hpp"

namespace shardstream::report::page {

/// About ten lines for an impatient reader.
std::string summary(const DetailedStudy& detailed);
/// One row a study, for a page with several.
std::string overview(const std::vector<DetailedStudy>& studies);
std::string methods(const StudyReport& study);
std::string size_table(const StudyReport& study);
/// Excluded, failed, throttled, unconverged, scattering and drifting points, with reasons.
std::string findings(const StudyReport& study);
std::string raw_points(const StudyReport& study);
std::string provenance(const DetailedStudy& detailed);
std::string commands(const StudyReport& study);
/// The command that makes the whole page.
std::string page_command(const Report& report);
/// The meaning of words and formulas; the same on every page.
std::string_view terms();

/// The style sheet of the page.
std::string_view style_sheet();

}  // namespace shardstream::report::page
