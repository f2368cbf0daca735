// Whether the results of a study agree. A result has the same bits on any number of ranks, so the
// launches of a strong study have equal values, and those of a weak study at each size.
#pragma once

#include <string>
#include <vector>

#include "report/run_file.hpp"

namespace shardstream::report {

/// An excluded file and the reason.
struct ExcludedFile {
  std::filesystem::path path;
  std::string reason;
};

/// The outcome of the comparison.
struct Agreement {
  std::vector<ExcludedFile> excluded;  ///< runs that contradict most of the others
  std::string contradiction;           ///< a sentence; empty if all results agree
  /// Sentences about input files that have changed between runs whose results agree.
  std::vector<std::string> notes;
};

/// Compares the values of `runs` of one study, in the order of their creation, and removes those
/// that contradict most of the others, or, on a tie, the earliest one. Timeline runs do not count
/// in this.
Agreement remove_contradictions(std::vector<RunFile>& runs, bool is_strong);

}  // namespace shardstream::report
