// The host backend: the reference, and the backend of machines without a GPU. A stream is a thread
// with a queue, so that ThreadSanitizer reports a missing wait of a schedule as a data race.
#pragma once

#include <memory>
#include <string>

#include "device/device.hpp"

namespace shardstream::device::host {

/// Kernels run on a team of `threads` threads; each stream copies on a few threads of its own.
std::unique_ptr<Device> make_device(unsigned threads);

/// The name of the processor, with repeated blanks removed; "CPU" if it is unknown.
std::string processor_name();

}  // namespace shardstream::device::host
