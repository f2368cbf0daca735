// The formats of a report. All numbers come from its result files.
#pragma once

#include <string>
#include <vector>

#include "core/table.hpp"
#include "report/studies.hpp"

namespace shardstream::report {

/// "0.95 [0.93, 0.97]": the value and its interval, if there is one.
std::string with_interval(const study::Estimate& estimate, int digits = 3);

enum class Detail {
  full,
  brief  ///< the most important columns, the law, its prediction, and warnings
};

/// `text` on one line, in which no character begins markup.
std::string for_markdown(const std::string& text);

/// The table in Markdown: a header without units, and one line per row.
std::string to_markdown(const Table& table);

/// Text for a terminal: a table for each study, the fitted laws, and conclusions in sentences. Side
/// by side, a brief text has only the tables of all studies and the warnings of each one.
std::string to_text(const Report& report, Detail detail = Detail::full);

/// One JSON object with a final line break, as described in README.md of this folder.
std::string to_json(const Report& report);

/// For each study, its sizes with node-hours and GPU-hours as a table of Markdown, or as a table
/// environment of LaTeX without packages.
std::string to_markdown(const Report& report);
std::string to_latex(const Report& report);

/// A file of a format that has several.
struct NamedText {
  std::string name;  ///< without a folder
  std::string text;
};

/// STUDY.csv for each study, with one row per repetition and a header with units. Studies with the
/// same name get numbers: STUDY-2.csv.
std::vector<NamedText> csv_files(const Report& report);

/// Throws UsageError unless the report has exactly one study, for to_extra_p(). Extra-P needs all
/// sizes of each study in its input, so studies of different sizes need a file each.
void expect_one_study(const Report& report);
/// The input of Extra-P (https://github.com/extra-p): one line of JSON per repetition, with the
/// number of ranks as the parameter p and the time of the work as the metric.
std::string to_extra_p(const StudyReport& study);

/// The sentences behind an exit code other than 0: unreadable files, and results that contradict
/// each other.
std::vector<std::string> problems_of(const Report& report);

/// 0 without problems, 1 if a file is unreadable, 3 if results contradict each other.
int exit_code(const Report& report);

}  // namespace shardstream::report
