#include "device/lanes.hpp"

#include <exception>

#include "core/error.hpp"

namespace shardstream::device {

Lanes::Lanes(Device& device, std::size_t count) : forked_(device.make_event()) {
  expect(count > 0, "there is a lane");
  for (std::size_t lane = 1; lane < count; ++lane) {
    beside_.push_back({device.make_stream(), device.make_event()});
  }
}

Lanes::~Lanes() {
  for (const Beside& each : beside_) {
    try {
      each.stream->synchronize();
    } catch (const std::exception&) {  // the error itself is on its way to the user
    }
  }
}

void Lanes::fork(Stream& first) {
  first_ = &first;
  if (beside_.empty()) return;
  first.record(*forked_);
  for (const Beside& each : beside_) each.stream->wait(*forked_);
}

void Lanes::join() {
  for (const Beside& each : beside_) {
    each.stream->record(*each.ended);
    first_->wait(*each.ended);
  }
}

}  // namespace shardstream::device
