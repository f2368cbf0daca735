// The limits of this machine, called ceilings. A run measures the ceilings that limit it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "core/table.hpp"
#include "device/device.hpp"
#include "ranks/session.hpp"

namespace shardstream::measure {

/// Numbers on which a rate depends, by name, such as the edges of a tile.
using Sizes = std::map<std::string, std::int64_t>;

/// One limit of the machine, measured with all ranks at work. The same on every rank.
struct Ceiling {
  std::string name;  ///< a plain identifier
  /// The rate of the slowest rank, and the sum over all ranks.
  double min = 0, aggregate = 0;
  std::string unit;
  bool on_path = false;  ///< whether all data of the run pass through it
  /// The amount that all ranks move through it in one repetition, in `unit` times seconds: GB for
  /// GB/s.
  double load = 0;
  std::vector<double> by_rank = {};  ///< the rate of each rank, if it was measured
  double seconds = 0;  ///< duration of the measurement of by_rank; the warm-up took as long
  /// The conditions on which the rate depends, besides the machine, in words; may be empty.
  std::string conditions = {};
  Sizes sizes = {};  ///< the numbers among the conditions; columns of their own in the table
};

/// The sizes and the time of a measurement. They are larger for a long run than for a short one.
struct Effort {
  std::uint64_t host_bytes;    ///< bytes of each host buffer that is copied from or to
  std::uint64_t device_bytes;  ///< bytes of each device buffer that kernels read or copy
  double seconds;              ///< duration of the measurement, without the warm-up
};
/// The effort for a run in which a rank moves `bytes` bytes. It is at most 60 ms. A device buffer
/// has at most 2 GiB, and a host buffer at most `host_sample` bytes; on the host backend each has
/// at most 32 MiB. On a GPU the two buffers of a measurement together fit into `device_limit`, the
/// bytes of device memory that this rank may use, if that is 2 MiB or more.
///
/// If host buffers fit into the processor's caches, the measurement shows the rate of the links. If
/// they are larger, it shows how fast the host's memory serves all links together. Returns the same
/// on every rank. Collective.
Effort effort_for(const device::Device& device, const ranks::Session& session, std::uint64_t bytes,
                  std::uint64_t host_sample, std::uint64_t device_limit);

/// The work that is measured: a function that enqueues it on streams.
struct StreamWork {
  std::vector<std::unique_ptr<device::Stream>> streams = {};
  std::function<void()> enqueue = {};
  comm::Communicator* communicator = nullptr;  ///< set if the streams wait for other ranks

  /// Enqueues `calls` calls and then waits for all of them.
  void call(int calls) const;
};

/// The rate of `work` in 10^9 per second. Each call of it counts as `amount`. All ranks begin
/// together after a warm-up, since an idle device needs some tens of milliseconds to reach its full
/// rate. Collective.
Ceiling measured(const std::string& name, const std::string& unit, double amount,
                 const ranks::Session& session, Effort effort, const StreamWork& work);

/// The direction of copies between pinned memory and the device. For `both`, the rate counts the
/// bytes of one direction.
enum class LinkDirection { up, down, both };

/// The rate of copies between pinned memory and the device in GB/s: link_up, link_down, link_both.
/// On the host backend, it is the rate of a stream's copies in host memory. Collective.
Ceiling link(LinkDirection way, device::Device& device, const ranks::Session& session,
             Effort effort);

/// The rate of kernels that read (device_read) or copy (device_copy, bytes read plus written)
/// device memory, in GB/s. On the host backend, device memory is host memory, and kernels run on
/// the granted CPUs. Collective.
Ceiling device_read(device::Device& device, const ranks::Session& session, Effort effort);
Ceiling device_copy(device::Device& device, const ranks::Session& session, Effort effort);

/// The rate of multiply-adds in registers, in Gflop/s: arithmetic_f32, arithmetic_f64. Collective.
template <class T>
Ceiling arithmetic(device::Device& device, const ranks::Session& session, Effort effort);

/// The rate of an all-gather of `bytes` bytes per rank, in GB/s of bytes that a rank receives from
/// other ranks. Nothing with one rank. Collective.
std::optional<Ceiling> all_gather(device::Device& device, comm::Communicator& communicator,
                                  const ranks::Session& session, Effort effort, std::size_t bytes);

/// Among the ceilings on the path, the one that needs the longest time for its load; null if there
/// is none. It points into `ceilings`.
const Ceiling* binding(std::span<const Ceiling> ceilings);

/// The table /ceilings.
Table ceilings_table(const std::vector<Ceiling>& ceilings);

}  // namespace shardstream::measure
