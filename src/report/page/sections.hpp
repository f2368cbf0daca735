// The texts and tables of the section of a study, as HTML.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/page/figures/figures.hpp"

namespace shardstream::report::page {

/// A summary in about ten lines.
std::string summary(const DetailedStudy& detailed);
/// The title of a study's section: its name, with its letter if the studies are side by side.
std::string title_of(const Report& report, std::size_t study);
/// One row per study, for a page with several studies.
std::string overview(const Report& report);
std::string methods(const StudyReport& study);
std::string size_table(const StudyReport& study);
/// Problems with reasons: excluded, failed, throttled, unconverged, scattering and drifting points.
std::string findings(const StudyReport& study);
std::string raw_points(const StudyReport& study);
std::string provenance(const DetailedStudy& detailed);
std::string commands(const StudyReport& study);
/// The command that makes the whole page.
std::string page_command(const Report& report);
/// The definitions of terms and formulas; the same on every page.
std::string_view terms();

/// The style sheet of the page.
std::string_view style_sheet();

}  // namespace shardstream::report::page
