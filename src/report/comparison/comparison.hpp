// The comparison of two sides of result files, point by point: whether runs became slower.
// Everything is a function of the files only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/table.hpp"
#include "report/comparison/sides.hpp"
#include "study/comparison.hpp"

namespace shardstream::report {

/// A phase has no ratio if it takes less than this share of a repetition on one side, since ratios
/// of tiny times are meaningless.
inline constexpr double min_phase_share = 0.001;

/// A phase on the slowest rank. If tracks differ only in their number, the slowest one is used.
struct PhaseComparison {
  std::string track, phase, kind;
  double before = 0, after = 0;  ///< seconds per repetition, medians over the launches
  /// Nothing if a launch does not have the phase, or if a side has less than min_phase_share of it.
  std::optional<study::Comparison> times;

  double change() const { return after - before; }
};

struct PointComparison {
  const ComparedPoint *before = nullptr, *after = nullptr;
  study::Comparison time, rate;
  std::optional<study::Comparison> to_result;  ///< nothing if it is unknown on a side
  /// Phases that take at least 1 % of a repetition on one side; the largest change comes first.
  std::vector<PhaseComparison> phases;
  study::Result<std::size_t> launches_to_decide;  ///< per side, if the time is unclear
  std::vector<std::string> warnings;              ///< sentences without a full stop

  /// The phase with the largest clear change in the direction of the change of the time, or null if
  /// there is none. A waiting phase is returned only if no other phase has at least half of the
  /// change of the time.
  const PhaseComparison* largest_change() const;
};

/// A value that differs between the sides. If launches of one side differ, it lists all their
/// values.
struct SetupChange {
  std::string what;  ///< option, version, machine or plan
  std::string name, before, after;
  std::vector<std::uint64_t> ranks;  ///< of the points where it differs
  bool by_calibration = false;       ///< whether the calibration runs of both sides have set it
};

/// The parameters of a verdict, as fractions; see study::compare().
struct Judgement {
  double threshold = study::default_threshold;
  double launch_noise = study::default_launch_noise;
  bool is_noise_given = false;  ///< whether the user knows `launch_noise`
};

/// Movable but not copyable, since its points refer to its sides.
struct ComparisonReport {
  ComparisonReport() = default;
  ComparisonReport(ComparisonReport&&) = default;

  Side before, after;
  Judgement judgement;
  std::vector<PointComparison> points;
  std::vector<Unmatched> unmatched;
  std::vector<SetupChange> changes;

  /// The verdict for the times of all points: slower if any point is slower, else unclear if any
  /// point is unclear, else faster if any point is faster, else same.
  study::Change verdict() const;
};

/// Compares the results in the two paths. Throws UsageError if a side has no usable result, if both
/// sides have the same result, or if the sides have no point in common.
ComparisonReport make_comparison(const std::string& before, const std::string& after,
                                 const Judgement& judgement);

/// Tables that a reader of Markdown opens by clicking on `summary`.
std::string folded(const std::string& summary, const std::vector<Table>& tables);

/// Text for a terminal: tables of the points and the phases, and the other differences.
std::string to_text(const ComparisonReport& report);

/// The same in Markdown: the verdict first, and the tables folded.
std::string to_markdown(const ComparisonReport& report);

/// One JSON object with a final line break, see README.md.
std::string to_json(const ComparisonReport& report);

/// 5 if a point is slower, else 1 if a file is unreadable, else 4 if a point is unclear, else 0.
int exit_code(const ComparisonReport& report);

}  // namespace shardstream::report
