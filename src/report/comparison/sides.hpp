// The two sides of a comparison. Launches that computed the same are one point.
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

/// Two runs can be compared if these values are the same. An empty one is not known, and equals
/// every other.
struct Trait {
  std::string_view name;
  std::string value;
};

/// The values that are known, the workload first: "..., 1.07 GB, f32, cuda, 2 ranks".
std::string words_of(const std::vector<Trait>& traits);

struct ComparedRun {
  RunFile file;
  Setup setup;
};

/// The launches of one side with the same traits.
struct Point {
  std::vector<Trait> traits;  ///< workload, work, shape, type, precision, backend, ranks
  std::vector<ComparedRun> runs;
  std::set<std::string> studies;  ///< that the launches belong to

  const RunFile& first() const { return runs.front().file; }
};

struct Side {
  std::string name;  ///< OLD or NEW
  std::string path;
  std::vector<Point> points;  ///< by their traits; ranks ascending
  std::vector<ExcludedFile> excluded, unreadable;
  std::vector<Attempt> failed;
  std::vector<std::string> missing;  ///< as StudyReport::missing

  std::size_t launches() const;
};

/// A point of one side that has no counterpart, and why.
struct Unmatched {
  std::string side, point, reason;
};

/// The runs of a file or folder that count for make_report(). Throws UsageError if there is no
/// file, or none that counts.
Side read_side(const std::string& name, const std::string& path);

/// Throws UsageError if a file or a run is on both sides.
void check_distinct(const Side& before, const Side& after);

using Pair = std::pair<const Point*, const Point*>;

/// The points of both sides with the same traits, valid as long as the sides are; the others with
/// the reason.
std::vector<Pair> match(const Side& before, const Side& after, std::vector<Unmatched>& unmatched);

}  // namespace shardstream::report
