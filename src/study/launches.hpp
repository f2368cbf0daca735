// The input of every law: launches of one program at several numbers of ranks.
#pragma once

#include <optional>
#include <string>

namespace shardstream::study {

enum class Mode {
  strong,  ///< the same work at every size
  weak     ///< the same work per rank
};

/// One launched run.
struct MeasuredLaunch {
  int ranks = 0;
  double seconds = 0;  ///< median time of the work over the launch's repetitions
  double work = 0;     ///< counted work of one repetition, in any unit; the same unit in a study
};

/// The reason why a study cannot use `launch`, with the value, or nothing for a valid launch. A
/// valid launch has at least one rank, and its time and work are positive and finite.
std::optional<std::string> why_invalid(const MeasuredLaunch& launch);

}  // namespace shardstream::study
