// What this machine can do, measured beside the run that it limits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "core/table.hpp"
#include "device/device.hpp"
#include "launch/session.hpp"

namespace shardstream::measure {

/// One limit, the same on every rank: of the slowest rank, and of all ranks together, which work at
/// once.
struct Ceiling {
  std::string name;  ///< a plain identifier
  double least = 0, aggregate = 0;
  std::string unit;
  bool on_path = false;  ///< all data of the run beside it pass here
  double load = 0;  ///< what all ranks take through it in a repetition, in `unit` times seconds
  std::vector<double> by_rank = {};  ///< each rank's, where ranks can be told apart
  double seconds = 0;                ///< of measuring by_rank, after as long a warm-up
  /// What the rate depends on beside the machine, in words; empty: nothing.
  std::string conditions = {};
};

/// How much a measurement may take: more for a long run than for a short one.
struct Effort {
  std::uint64_t host_bytes;    ///< of each host memory that is copied from or to
  std::uint64_t device_bytes;  ///< of each device memory that kernels read or copy
  double seconds;              ///< of measuring; waking the device up comes before
};
/// For a run in which a rank moves `bytes` bytes: at most 2 GiB of a GPU's memory, `host_sample`
/// bytes of the host's (32 MiB of both on the host backend) and 60 ms. All buffers of a measurement
/// together fit into `device_limit`, what this rank may use of a GPU, if that is 2 MiB or more.
/// Host memory that is small enough for the processor's caches shows the links; more of it shows
/// what the host's memory gives all links at once. Collective, the same on every rank.
Effort effort_for(const device::Device& device, const launch::Session& session, std::uint64_t bytes,
                  std::uint64_t host_sample, std::uint64_t device_limit);

/// Streams that work side by side, and what one call gives them to do.
struct StreamWork {
  std::vector<std::unique_ptr<device::Stream>> streams = {};
  std::function<void()> enqueue = {};
  comm::Communicator* communicator = nullptr;  ///< if what the streams do waits for other ranks

  /// Enqueues `calls` calls before it waits for the first.
  void call(int calls) const;
};

/// The rate of `work`, which does `amount` a call, in units of 10^9 a second. All ranks begin
/// together; what was idle takes some tens of milliseconds to reach its full rate. Collective.
Ceiling measured(const std::string& name, const std::string& unit, double amount,
                 const launch::Session& session, Effort effort, const StreamWork& work);

/// Which way copies between pinned memory and the device go; `both` counts one way's bytes.
enum class Way { up, down, both };

/// Copies between pinned memory and the device, in GB/s of bytes copied: link_up, link_down,
/// link_both. On the host backend that is what a stream's copies reach. Collective.
Ceiling link(Way way, device::Device& device, const launch::Session& session, Effort effort);

/// Kernels that read (device_read) or copy (device_copy, bytes read plus written) device memory, in
/// GB/s. On the host backend that is host memory and the granted CPUs. Collective.
Ceiling device_read(device::Device& device, const launch::Session& session, Effort effort);
Ceiling device_copy(device::Device& device, const launch::Session& session, Effort effort);

/// Multiply-adds in registers, in Gflop/s: arithmetic_f32, arithmetic_f64. Collective.
template <class T>
Ceiling arithmetic(device::Device& device, const launch::Session& session, Effort effort);

/// An all-gather of `bytes` bytes a rank, in GB/s of bytes that arrive from other ranks; nothing
/// with one rank. Collective.
std::optional<Ceiling> all_gather(device::Device& device, comm::Communicator& communicator,
                                  const launch::Session& session, Effort effort, std::size_t bytes);

/// The ceiling on the path that would take longest for its load, all ranks together; null if there
/// is none.
const Ceiling* binding(std::span<const Ceiling> ceilings);

Table ceilings_table(const std::vector<Ceiling>& ceilings);

}  // namespace shardstream::measure
