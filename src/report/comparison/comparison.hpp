// Whether runs became slower: two sides of result files, point by point. Everything is a function
// of the files alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/comparison/sides.hpp"
#include "study/comparison.hpp"

namespace shardstream::report {

/// A phase has no ratio if it takes less than this share of a repetition on a side: against almost
/// nothing every ratio is large.
inline constexpr double min_phase_share = 0.001;

/// A phase on the slowest rank; tracks that differ in their number alone count as one, the slowest.
struct PhaseComparison {
  std::string track, phase, kind;
  double before = 0, after = 0;  ///< seconds a repetition, medians over the launches
  /// None if a launch has no time in it, or if a side has less than min_phase_share of it.
  std::optional<study::Comparison> times;

  double change() const { return after - before; }
};

struct PointComparison {
  const Point *before = nullptr, *after = nullptr;
  study::Comparison time, rate;
  std::optional<study::Comparison> to_result;  ///< none if a side does not say
  /// Those that take 1 % of a repetition on one side; the largest change comes first.
  std::vector<PhaseComparison> phases;
  study::Result<std::size_t> launches_to_decide;  ///< a side, if the time is unclear
  std::vector<std::string> warnings;              ///< sentences without a full stop

  /// The phase with the largest change in the direction in which the time changed, of those whose
  /// change is not unclear; none if there is no such phase. A phase that waits for another one
  /// counts only if no other phase has half of the time's change.
  const PhaseComparison* largest_change() const;
};

/// A value that differs between the sides. If launches of one side differ, all their values.
struct SetupChange {
  std::string what;  ///< option, version, machine or plan
  std::string name, before, after;
  std::vector<std::uint64_t> ranks;  ///< of the points where it differs
};

/// Its points refer to its sides: it may be moved, but not copied.
struct ComparisonReport {
  ComparisonReport() = default;
  ComparisonReport(ComparisonReport&&) = default;

  Side before, after;
  double threshold = 0;
  std::vector<PointComparison> points;
  std::vector<Unmatched> unmatched;
  std::vector<SetupChange> changes;

  /// The verdict over the times of all points. The first of slower, unclear and faster that any
  /// point has; same if no point has one of them.
  study::Change verdict() const;
};

/// Compares the results that the two paths name. `threshold` as study::compare() has it. Throws
/// UsageError if a side has no result that counts, if both have the same one, or if no point of one
/// side is also on the other.
ComparisonReport make_comparison(const std::string& before, const std::string& after,
                                 double threshold);

/// For a terminal: tables of the points and the phases, and the other differences.
std::string to_text(const ComparisonReport& report);

/// One JSON object, see README.md. Ends with a line break.
std::string to_json(const ComparisonReport& report);

/// 5 if a point is slower, else 1 if a file is unreadable, else 4 if a point is unclear, else 0.
int exit_code(const ComparisonReport& report);

}  // namespace shardstream::report
