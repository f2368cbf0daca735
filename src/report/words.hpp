// Words that the text and the page of a report share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/studies.hpp"

namespace shardstream::report {

/// The end of a phrase that begins with "time:", on which time of a program of the user counts:
/// "wall time of the program" or "loop, printed by the program". Empty for a workload. The name of
/// the time comes from a file and may contain control characters.
std::string words_on_time(const StudyReport& study);

/// Sentences on the fitted law of a study: its serial share and whether it fits, or that it is
/// rejected, or why there is none.
std::string words_on_law(const StudyReport& study);

/// The end of a sentence that begins with "Configured law:": the law that the options set. Empty
/// without one.
std::string words_on_configured(const StudyReport& study);

/// Sentences on the prediction of the law at twice the largest size, or why there is none. Empty
/// without a law.
std::string words_on_expected(const StudyReport& study);

/// Whether a law fits: "yes", "no", "unclear" or "untested".
const char* word_of(study::FitVerdict verdict);

/// "3 repetitions" or "6 to 22 repetitions": the numbers of timed repetitions of the launches of
/// these sizes.
std::string repetitions_of(const std::vector<SizeFacts>& sizes);

/// The end of a sentence that begins with "Intervals:", and the scatter of launches behind them.
/// `mark` is the sign of a marked size in the table of sizes, if it has one.
std::string words_on_intervals(const study::Study& table, std::string_view mark = "");

/// A sentence on the size that speed-ups and laws refer to; empty for a study of one size.
std::string words_on_reference(const study::Study& table);

/// Explains the mark of a size whose study::Size::noisier is set.
inline constexpr std::string_view meaning_of_mark =
    "The launches of a size with ! scatter at least three times as much as those of the others.";

/// For each outlier, a sentence without a full stop that names the file. The path may contain
/// control characters.
std::vector<std::string> words_on_outliers(const StudyReport& study);

/// "0.0132 node-hours and 0.0527 GPU-hours", without GPUs only the former; empty if it is unknown.
std::string words_of(const Cost& cost);

/// "Failed: p2-r1, attempt 1, job 47: exit code 1 (logs/p2-r1-a1.log)" for each failed or
/// interrupted attempt, without a full stop. Texts come from a file and may contain control
/// characters.
std::vector<std::string> words_on_attempts(const StudyReport& study);

/// Whether the runs are so much faster than their measured limit that the share is shown as more
/// than 1.
bool exceeds_bound(const SizeFacts& facts);

/// A sentence on shares of a limit above 1; empty if no size has one.
std::string words_on_shares(const std::vector<SizeFacts>& sizes);

}  // namespace shardstream::report
