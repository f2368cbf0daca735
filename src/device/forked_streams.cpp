#include "device/forked_streams.hpp"

#include <exception>

#include "core/error.hpp"

namespace shardstream::device {

ForkedStreams::ForkedStreams(Device& device, std::size_t count) : forked_(device.make_event()) {
  expect(count > 0, "there is at least one stream");
  for (std::size_t number = 1; number < count; ++number) {
    own_.push_back({device.make_stream(), device.make_event()});
  }
}

ForkedStreams::~ForkedStreams() {
  for (const Own& each : own_) {
    try {
      each.stream->synchronize();
    } catch (const std::exception&) {
      // The original error is already being reported.
    }
  }
}

void ForkedStreams::fork(Stream& first) {
  first_ = &first;
  if (own_.empty()) return;
  first.record(*forked_);
  for (const Own& each : own_) each.stream->wait(*forked_);
}

void ForkedStreams::join() {
  for (const Own& each : own_) {
    each.stream->record(*each.ended);
    first_->wait(*each.ended);
  }
}

}  // namespace shardstream::device
