// What this machine can do, measured beside the run that it limits.
#pragma once

#include <string>

#include "device/device.hpp"
#include "launch/session.hpp"

namespace shardstream::measure {

/// One limit, the same on every rank: of the slowest rank, and of all ranks together.
struct Ceiling {
  std::string name;  ///< a plain identifier
  double least = 0, aggregate = 0;
  std::string unit;
};

/// Copies from pinned memory to the device, all ranks at once, in GB/s of bytes copied. On the host
/// backend that is what a stream's copies reach. Allocates 32 MiB of each memory for its time.
/// Collective.
Ceiling link_up(device::Device& device, const launch::Session& session);

}  // namespace shardstream::measure
