// Relates the steady clocks of the ranks to each other, and the device's clock to the host's.
// MPI_Wtime does not help, since it is rarely global.
#pragma once

#include <cstdint>
#include <memory>

#include "device/device.hpp"
#include "ranks/session.hpp"

namespace shardstream::measure {

/// The time of this process's steady clock in nanoseconds.
std::int64_t steady_ns();

/// The difference between a rank's clock and rank 0's clock at one moment. Rank 0's clock is ahead
/// by `offset_ns`, within +-`error_ns`. Both are 0 on rank 0.
struct ClockOffset {
  std::int64_t at_ns = 0;  ///< the time of this rank's clock at that moment
  std::int64_t offset_ns = 0, error_ns = 0;
};

/// Compares rank 0's clock with every other rank's by the shortest of 64 round trips. The error is
/// half of the round trip, since the rank may have answered at any time within it. Collective.
ClockOffset compare_clocks(const ranks::Session& session);

/// Converts times between two comparisons of a rank's clock with rank 0's. If the two offsets
/// differ by more than their errors, the drift between them is assumed to be constant. Otherwise
/// the more exact of the two offsets is used.
class ClockAlignment {
 public:
  ClockAlignment(const ClockOffset& start, const ClockOffset& end) : start_(start), end_(end) {}

  /// The time of rank 0's clock when this rank's clock showed `mine_ns`.
  std::int64_t on_rank0(std::int64_t mine_ns) const;
  /// The larger error of the two comparisons, in nanoseconds.
  std::int64_t error() const;

 private:
  ClockOffset start_, end_;
};

/// Converts times of device events to the host's steady clock. It needs an anchor: a device event
/// that happened between two readings of the host's clock.
class DeviceClock {
 public:
  /// Takes the first anchor. The device must outlive it.
  explicit DeviceClock(device::Device& device);

  /// Takes a new anchor, since the two clocks drift apart. Blocks for some tens of microseconds if
  /// the device is idle.
  void renew();

  /// The time of `event` on the steady clock in nanoseconds. `event` must have been reached, and
  /// should be later than the anchor.
  std::int64_t on_host(const device::Event& event) const;

  /// The maximum error so far in nanoseconds. There are two kinds of errors: in reading the time of
  /// an anchor, and in predicting the time of the next anchor from it.
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
