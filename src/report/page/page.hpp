// A report as one self-contained HTML page without scripts, which needs no network.
#pragma once

#include <string>
#include <vector>

#include "report/formats.hpp"
#include "report/lesson.hpp"
#include "report/studies.hpp"

namespace shardstream::report {

struct Page {
  std::string html;
  std::string why_no_pictures;  ///< without a full stop; empty if no picture is missing
};

/// Runs gnuplot for the figures, and reads one or two files per size again. The same files give the
/// same page. `lessons` are shown with the figures of experiments.
Page to_page(const Report& report, const Lessons& lessons = no_lesson);

/// For each file of `bench`, the values of its figures in Markdown: a table for each group, with a
/// row for each figure. A bar or rung has its value, a line its smallest and largest one.
std::string figure_values(const Report& report);

/// The figures of the page as SVG documents: sN-FIGURE.svg for section N, bN-EXPERIMENT.svg for the
/// file N of `bench`. Throws UsageError if
/// gnuplot cannot draw all figures.
std::vector<NamedText> figure_files(const Report& report);

}  // namespace shardstream::report
