// How the steady clocks of the ranks differ. MPI_Wtime is no help: it is rarely global.
#pragma once

#include <cstdint>

#include "launch/session.hpp"

namespace shardstream::measure {

/// Nanoseconds of this process's steady clock.
std::int64_t steady_ns();

/// One rank's clock against rank 0's at one moment: rank 0's shows `offset_ns` more, give or take
/// `error_ns`. Rank 0's own has neither.
struct ClockOffset {
  std::int64_t at_ns = 0;  ///< this rank's clock at that moment
  std::int64_t offset_ns = 0, error_ns = 0;
};

/// From the shortest of 64 round trips between rank 0 and each other rank, of which half is the
/// error: the answer was given somewhere between question and return. Collective.
ClockOffset compare_clocks(const launch::Session& session);

/// A clock between two comparisons. If the offsets differ by more than their errors, it drifts
/// evenly. Otherwise the more exact offset holds throughout.
class ClockAlignment {
 public:
  ClockAlignment(const ClockOffset& start, const ClockOffset& end) : start_(start), end_(end) {}

  /// What rank 0's clock showed when this one showed `mine_ns`.
  std::int64_t on_rank0(std::int64_t mine_ns) const;
  /// Nanoseconds: the worse of the two comparisons'.
  std::int64_t error() const;

 private:
  ClockOffset start_, end_;
};

}  // namespace shardstream::measure
