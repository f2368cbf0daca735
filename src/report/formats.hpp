// The forms of a report. All numbers come from the files that it was made of.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/studies.hpp"

namespace shardstream::report {

/// "0.95 [0.93, 0.97]": the value and its interval, if there is one.
std::string with_interval(const study::Estimate& estimate, int digits = 3);

/// Whether a law fits, in a sentence. `residuals` are those of the fit.
std::string words_of(const study::Fit& fit, const std::vector<study::Residual>& residuals);

/// For a terminal: a table for each study, the fitted laws, and conclusions in sentences.
std::string to_text(const Report& report);

/// One JSON object, as README.md in this folder describes it. Ends with a line break.
std::string to_json(const Report& report);

/// STUDY.csv in `folder`, a row for each repetition; the header has the units. Makes the folder.
/// Returns the files. Throws UsageError if the folder cannot be made, Error if a file cannot be
/// written.
std::vector<std::filesystem::path> write_csv(const Report& report,
                                             const std::filesystem::path& folder);

/// The input of Extra-P (https://github.com/extra-p): a line of JSON for each repetition, with the
/// number of ranks as the parameter p and the time of the work as the metric.
std::string to_extra_p(const Report& report);

/// 0 if all is well, 1 if a file is unreadable, 3 if results contradict each other.
int exit_code(const Report& report);

}  // namespace shardstream::report
