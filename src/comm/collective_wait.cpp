#include "comm/collective_wait.hpp"

#include <utility>

namespace shardstream::comm {

CollectiveWait::CollectiveWait(device::Device& device, launch::Heartbeat& heartbeat)
    : heartbeat_(heartbeat), own_work_(device.make_event()) {}

void CollectiveWait::begin(device::Stream& stream) {
  if (!std::exchange(begun_, true)) stream.record(*own_work_);
}

void CollectiveWait::end(device::Stream& stream) {
  if (!std::exchange(begun_, false)) return stream.synchronize();
  own_work_->synchronize();
  const auto waiting = heartbeat_.waiting();
  stream.synchronize();
}

}  // namespace shardstream::comm
