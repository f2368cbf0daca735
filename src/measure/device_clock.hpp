// When on the host's clock an event of the device was reached.
#pragma once

#include <cstdint>
#include <memory>

#include "device/device.hpp"

namespace shardstream::measure {

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
