// How a rank waits for collectives that run in the order of a stream, as NCCL's do.
#pragma once

#include <memory>

#include "device/device.hpp"
#include "launch/heartbeat.hpp"

namespace shardstream::comm {

/// Tells a rank that waits for the others from one whose own device does not go on. For one thread.
class CollectiveWait {
 public:
  /// Both must outlive it.
  CollectiveWait(device::Device& device, launch::Heartbeat& heartbeat);

  /// Before a collective is enqueued: what `stream` has to do so far is this rank's own work.
  void begin(device::Stream& stream);

  /// Waits for all work of `stream`; throws what its synchronize() throws. Behind the first begin()
  /// since the last end() the rank is marked as waiting, until all is done.
  void end(device::Stream& stream);

 private:
  launch::Heartbeat& heartbeat_;
  std::unique_ptr<device::Event> own_work_;
  bool begun_ = false;
};

}  // namespace shardstream::comm
