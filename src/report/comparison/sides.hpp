// The two sides of a comparison. Launches with the same computation form one point.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/comparison/setup.hpp"
#include "report/studies.hpp"

namespace shardstream::report {

/// A property that must be the same in two runs that are compared. An empty value is unknown and
/// equals every other value.
struct Trait {
  std::string_view name;
  std::string value;
};

/// The known values, beginning with the workload: "..., 1.07 GB, f32, cuda, 2 ranks".
std::string words_of(const std::vector<Trait>& traits);

struct ComparedRun {
  RunFile file;
  Setup setup;
};

/// The launches of one side with the same traits.
struct ComparedPoint {
  std::vector<Trait> traits;  ///< workload, work, shape, type, precision, backend, metric, ranks
  std::vector<ComparedRun> runs;
  std::set<std::string> studies;  ///< the studies of the launches

  const RunFile& first() const { return runs.front().file; }
};

struct Side {
  std::string name;  ///< OLD or NEW
  std::string path;
  std::vector<ComparedPoint> points;  ///< sorted by their traits, with ascending ranks
  std::vector<ExcludedFile> excluded, unreadable;
  std::vector<study_folder::LaunchAttempt> failed;
  std::vector<std::string> missing;  ///< see UnfinishedLaunches::missing

  std::size_t launches() const;
};

/// A point of one side without a counterpart, and the reason.
struct Unmatched {
  std::string side, point, reason;
};

/// The runs of a file or folder that make_report() does not exclude. Throws UsageError if there are
/// none.
Side read_side(const std::string& name, const std::string& path);

/// Throws UsageError if a file or a run is on both sides.
void check_distinct(const Side& before, const Side& after);

using Pair = std::pair<const ComparedPoint*, const ComparedPoint*>;

/// Pairs of points with the same traits, valid as long as the sides. Adds the other points to
/// `unmatched`.
std::vector<Pair> match(const Side& before, const Side& after, std::vector<Unmatched>& unmatched);

}  // namespace shardstream::report
