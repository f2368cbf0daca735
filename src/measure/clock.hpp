// How the steady clocks of the ranks differ, and when on the host's clock an event of the device
// was reached. MPI_Wtime is no help: it is rarely global.
#pragma once

#include <cstdint>
#include <memory>

#include "device/device.hpp"
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

/// Rests on an anchor: an event that the host saw happen between two looks at its steady clock.
class DeviceClock {
 public:
  /// Takes the first anchor. The device must outlive it.
  explicit DeviceClock(device::Device& device);

  /// Takes a new anchor, since the two clocks drift apart. Blocks for some tens of microseconds, if
  /// the device is at rest.
  void renew();

  /// Nanoseconds of the steady clock. `event` must have been reached, and should have been after
  /// the anchor.
  std::int64_t on_host(const device::Event& event) const;

  /// The worst so far, in nanoseconds: of seeing an anchor, and of what an old one said of the
  /// next.
  std::int64_t error() const { return error_; }

 private:
  struct Anchor {
    std::unique_ptr<device::Event> event;
    std::int64_t host_ns = 0, error_ns = 0;
  };
  void look(Anchor& anchor);

  std::unique_ptr<device::Stream> stream_;
  Anchor anchor_, best_, next_;
  bool anchored_ = false;
  std::int64_t error_ = 0;
};

}  // namespace shardstream::measure
