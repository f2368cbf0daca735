// The comparison of two sides of files of `bench`, case by case.
#pragma once

#include <string>
#include <vector>

#include "report/comparison/comparison.hpp"
#include "report/experiments.hpp"

namespace shardstream::report {

/// A case: a row of the table of an experiment that both sides have.
struct CaseComparison {
  std::string experiment, name;  ///< `name` has the varied quantities: "stride 2, at_once 1"
  std::string figure, unit;      ///< the measured quantity
  double before, after;          ///< its medians
  study::Estimate ratio;         ///< after / before
  study::Change change;          ///< slower is worse, also for rates
};

struct BenchComparison {
  std::string before, after;  ///< the paths
  Judgement judgement;
  std::vector<CaseComparison> cases;
  std::vector<std::string> only_before, only_after;  ///< "EXPERIMENT, NAME" of cases on one side
  std::vector<std::string> not_measured;             ///< sentences about experiments

  /// As ComparisonReport::verdict().
  study::Change verdict() const;
  /// The number of cases with this change.
  std::size_t count(study::Change change) const;
};

/// Whether the first result in the path is a file of `bench`.
bool holds_benches(const std::string& path);

/// Compares the files in the two paths, each a file of `bench` or a folder of them, which count as
/// launches. Cases with the same rank and the same values of the varied quantities are compared.
/// Throws UsageError if a path has other results too, or if no case is on both sides.
BenchComparison make_bench_comparison(const std::string& before, const std::string& after,
                                      const Judgement& judgement);

/// Text for a terminal: the cases that changed, and the number of the others.
std::string to_text(const BenchComparison& comparison);
/// One JSON object with a final line break, see README.md.
std::string to_json(const BenchComparison& comparison);
/// 5 if a case is slower, else 4 if a case is unclear, else 0.
int exit_code(const BenchComparison& comparison);

}  // namespace shardstream::report
