// The comparison of two sides case by case: experiments of `bench`, or measurements of any other
// program. Cases of the two sides belong together if they have the same name.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "report/comparison/comparison.hpp"
#include "study/comparison.hpp"

namespace shardstream::report {

/// The launches of one case on one side.
struct Case {
  std::string experiment = {};  ///< of `bench`; empty for other programs
  std::string name;             ///< "stride 2, at_once 1", a benchmark, a command
  std::string figure;           ///< the measured quantity
  std::string unit = {};        ///< empty if it is unknown
  bool more_is_better = true;
  std::vector<study::Estimate> launches = {};  ///< positive and finite, in `unit`
};

/// The cases of a side, in the order of its files.
struct CaseSide {
  std::string path;
  std::vector<Case> cases;
  std::vector<std::string> not_measured;  ///< sentences without a full stop

  /// The case with the experiment and the name of `like`, which is added if there is none.
  Case& at(const Case& like);
  /// The same; null if there is none.
  const Case* find(const Case& like) const;

 private:
  std::map<std::pair<std::string, std::string>, std::size_t> places_;
};

/// A case that both sides have.
struct CaseComparison {
  Case before, after;
  study::Comparison times;        ///< of rates, their reciprocals are compared like times
  bool slower_in_family = false;  ///< whether it is slower if all cases are judged together

  /// The means of the launches and their ratio, after / before, of the measured quantity.
  study::Comparison measured() const;
  study::Change change() const { return times.change; }
};

struct CasesComparison {
  std::string before, after;  ///< the paths
  Judgement judgement;
  std::vector<CaseComparison> cases;
  std::vector<std::string> only_before, only_after;  ///< cases on one side: "EXPERIMENT, NAME"
  std::vector<std::string> not_measured;             ///< sentences without a full stop

  /// Slower if a case is slower in the family of all cases (study::slower_in_family), else unclear
  /// if a case is unclear or slower alone, else faster if a case is, else same.
  study::Change verdict() const;
  /// The number of cases with this verdict of their own.
  std::size_t count(study::Change change) const;
};

/// Compares the cases that both sides have. Throws UsageError if there are none.
CasesComparison compare_cases(const CaseSide& before, const CaseSide& after,
                              const Judgement& judgement);

/// Text for a terminal: a table of the cases, or of the changed ones if there are many, the number
/// of each verdict, and sentences.
std::string to_text(const CasesComparison& comparison);
/// The same in Markdown: the verdict first, and the table folded.
std::string to_markdown(const CasesComparison& comparison);
/// One JSON object with a final line break, see README.md.
std::string to_json(const CasesComparison& comparison);
/// 5 if the verdict is slower, 4 if it is unclear, else 0.
int exit_code(const CasesComparison& comparison);

}  // namespace shardstream::report
