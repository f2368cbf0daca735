// Measurements of other programs as the cases of a comparison: JSON of hyperfine and of
// google-benchmark, CSV tables, and text files with one number a line.
#pragma once

#include <string>
#include <vector>

#include "report/comparison/cases.hpp"

namespace shardstream::report {

/// The parts of a text file that the user has named.
struct Columns {
  std::vector<std::string> keys;  ///< of a CSV table: their values name a case
  std::string value;              ///< of a CSV table: the measured values; empty if not given
  std::string better;             ///< "less", "more"; empty if not given, which is less

  bool are_given() const { return !keys.empty() || !value.empty() || !better.empty(); }
};

/// Whether the path is a text file, which no result of this program is. False if there is no such
/// file, or if it cannot be opened.
bool holds_text(const std::string& path);

/// Compares two text files of the same kind, which is recognized from their contents. Each value is
/// a launch. If each side has one value of a case, a verdict needs `judgement.is_noise_given`. With
/// one command in each of two files of hyperfine, the commands may differ. Throws UsageError with
/// the path if a file is of another kind, damaged, empty, has a value that is not positive and
/// finite, or names a case twice, and if `columns` do not fit the kind.
CasesComparison compare_measurements(const std::string& before, const std::string& after,
                                     const Columns& columns, const Judgement& judgement);

}  // namespace shardstream::report
