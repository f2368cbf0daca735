// The limits of this machine (ceilings), measured in the run that they limit.
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

/// One limit of the machine, measured with all ranks at work. The same on every rank.
struct Ceiling {
  std::string name;  ///< a plain identifier
  /// The rate of the slowest rank, and the sum over all ranks.
  double min = 0, aggregate = 0;
  std::string unit;
  bool on_path = false;  ///< whether all data of the run pass through it
  double load = 0;       ///< amount that all ranks move through it per repetition: unit times s
  std::vector<double> by_rank = {};  ///< the rate of each rank, if it was measured
  double seconds = 0;                ///< time of measuring by_rank, after an equally long warm-up
  /// A description of the conditions that the rate depends on, besides the machine; may be empty.
  std::string conditions = {};
};

/// The size and time of a measurement, larger for a long run than for a short one.
struct Effort {
  std::uint64_t host_bytes;    ///< of each host buffer that is copied from or to
  std::uint64_t device_bytes;  ///< of each device buffer that kernels read or copy
  double seconds;              ///< of the measurement, without waking the device up
};
/// The effort for a run in which a rank moves `bytes` bytes: at most 2 GiB of device memory,
/// `host_sample` bytes of host memory (32 MiB of both on the host backend) and 60 ms. All buffers
/// of a measurement together fit into `device_limit`, the device memory in bytes that this rank may
/// use, if that is 2 MiB or more. With host buffers that fit into the processor's caches, a
/// measurement shows the links; with larger ones, it shows how the host's memory serves all links
/// together. Returns the same on every rank. Collective.
Effort effort_for(const device::Device& device, const launch::Session& session, std::uint64_t bytes,
                  std::uint64_t host_sample, std::uint64_t device_limit);

/// The work to measure: a function that enqueues it on streams.
struct StreamWork {
  std::vector<std::unique_ptr<device::Stream>> streams = {};
  std::function<void()> enqueue = {};
  comm::Communicator* communicator = nullptr;  ///< set if the streams wait for other ranks

  /// Enqueues `calls` calls and then waits for all of them.
  void call(int calls) const;
};

/// The rate of `work`, whose every call does the amount `amount`, in 10^9 per second. All ranks
/// begin together, after a warm-up, since an idle device needs some tens of milliseconds to reach
/// its full rate. Collective.
Ceiling measured(const std::string& name, const std::string& unit, double amount,
                 const launch::Session& session, Effort effort, const StreamWork& work);

/// The direction of copies between pinned memory and the device. For `both`, the rate counts the
/// bytes of one direction.
enum class Way { up, down, both };

/// The rate of copies between pinned memory and the device in GB/s: link_up, link_down, link_both.
/// On the host backend, it is the rate of a stream's copies in host memory. Collective.
Ceiling link(Way way, device::Device& device, const launch::Session& session, Effort effort);

/// The rate of kernels that read (device_read) or copy (device_copy, bytes read plus written)
/// device memory, in GB/s. On the host backend, device memory is host memory, and kernels run on
/// the granted CPUs. Collective.
Ceiling device_read(device::Device& device, const launch::Session& session, Effort effort);
Ceiling device_copy(device::Device& device, const launch::Session& session, Effort effort);

/// The rate of multiply-adds in registers, in Gflop/s: arithmetic_f32, arithmetic_f64. Collective.
template <class T>
Ceiling arithmetic(device::Device& device, const launch::Session& session, Effort effort);

/// The rate of an all-gather of `bytes` bytes per rank, in GB/s of bytes that a rank receives from
/// other ranks. Nothing with one rank. Collective.
std::optional<Ceiling> all_gather(device::Device& device, comm::Communicator& communicator,
                                  const launch::Session& session, Effort effort, std::size_t bytes);

/// The ceiling on the path that needs the longest time for its load, or null if there is none.
/// Valid as long as `ceilings`.
const Ceiling* binding(std::span<const Ceiling> ceilings);

Table ceilings_table(const std::vector<Ceiling>& ceilings);

}  // namespace shardstream::measure
