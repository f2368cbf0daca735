// The host backend: the reference, and the backend of machines without a GPU. A stream is a thread
// with a queue, so that ThreadSanitizer reports a missing wait of a schedule as a data race.
#pragma once

#include <memory>

#include "device/device.hpp"

namespace shardstream::device::host {

/// Kernels run on a team of `threads` threads; each stream copies on a few threads of its own.
std::unique_ptr<Device> make_device(unsigned threads);

}  // namespace shardstream::device::host
