// The host backend: the reference, and the backend of machines without a GPU. A stream is a real
// thread with a queue, so that a missing wait in a schedule is a data race that ThreadSanitizer
// sees.
#pragma once

#include <memory>

#include "device/device.hpp"

namespace shardstream::device::host {

/// Kernels run on a team of `threads` threads; copies run on a few threads of their stream.
std::unique_ptr<Device> make_device(unsigned threads);

}  // namespace shardstream::device::host
