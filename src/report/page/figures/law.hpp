// Fitted laws as lines of figures.
#pragma once

#include "report/page/figures/figure.hpp"
#include "report/studies.hpp"

namespace shardstream::report::page {

/// A fitted law as rows of a number of ranks and a value. All are empty without a law, or if the
/// law is rejected.
struct LawLines {
  Rows inside;        ///< from the smallest to the largest size
  Rows beyond;        ///< extrapolated to twice the largest size
  Rows limit;         ///< the value on infinitely many ranks, unless it is far beyond the others
  std::string name;   ///< of the law; "(untested)" or "(it may not fit)" follows if it is
  std::string share;  ///< "s = 0.1"
  std::string limit_words;  ///< "1/s: 10"; empty without a limit
};

/// The law of a study as speed-ups.
LawLines law_of_speedups(const StudyReport& study);

/// The expected speed-ups of the configured law; none without one.
Rows configured_speedups(const StudyReport& study);

/// Draws the lines and adds them to the legend of `figure`.
void plot_law(Script& script, Figure& figure, const LawLines& law);

/// Draws the lines of one of several studies in its style: the limit and the extrapolated part are
/// thin.
void plot_law_of_many(Script& script, const LawLines& law, const Style& style);

}  // namespace shardstream::report::page
