// The ways in which the experiment `collectives` makes its calls.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.hpp"
#include "device/device.hpp"
#include "experiments/machine/messages.hpp"
#include "ranks/session.hpp"

namespace shardstream::experiments::machine {

/// The buffers of a rank in device memory. The root of a broadcast is rank 0, which sends
/// `send`; the others receive into `receive`.
struct Buffers {
  float* send;
  float* receive;

  float* of_broadcast(int rank) const { return rank == 0 ? send : receive; }
};

/// The names of the ways of NCCL.
inline constexpr std::string_view nccl_plain_loop = "NCCL, plain loop",
                                  nccl_in_a_run = "NCCL, in a run",
                                  nccl_registered = "NCCL, registered",
                                  nccl_windows = "NCCL, windows",
                                  nccl_own_kernel = "own kernel, windows";

/// Memory of a way of its own: each of the buffers has `count` floats.
struct WayMemory {
  Buffers buffers;
  std::size_t count;
};

/// One way to make collective calls. All members are collective.
class CollectiveCalls {
 public:
  virtual ~CollectiveCalls() = default;
  virtual std::string_view name() const = 0;
  /// The memory in which messages must lie; nullopt if any device memory will do.
  virtual std::optional<WayMemory> memory() const { return std::nullopt; }
  /// Whether the way can make this call, the same on all ranks. Its buffers must be long enough.
  virtual bool takes(const Message&) const { return true; }
  /// Enqueues `calls` equal calls. May wait for the other ranks.
  virtual void enqueue(device::Stream& stream, const Message& message, const Buffers& buffers,
                       unsigned calls) = 0;
  /// Waits for all work of `stream`.
  virtual void wait(device::Stream& stream) = 0;
};

/// The way of a run: by a Communicator, which must outlive the object.
class CommunicatorCalls final : public CollectiveCalls {
 public:
  CommunicatorCalls(std::string_view name, comm::Communicator& communicator)
      : name_(name), communicator_(communicator) {}

  std::string_view name() const override { return name_; }
  void enqueue(device::Stream& stream, const Message& message, const Buffers& buffers,
               unsigned calls) override;
  void wait(device::Stream& stream) override { communicator_.wait(stream); }

 private:
  std::string_view name_;
  comm::Communicator& communicator_;
};

/// NCCL's calls in a plain loop, as nccl-tests makes them, and the ways that need newer versions.
struct NcclCalls {
  /// Calls on memory of any kind, on a communicator of its own. Null in a build without NCCL.
  std::unique_ptr<CollectiveCalls> plain;
  /// The same calls on registered memory and in symmetric windows, and a kernel that reads these
  /// windows. All use the communicator of `plain`.
  std::vector<std::unique_ptr<CollectiveCalls>> on_own_memory;
  /// A sentence for each way that this machine does not have, with its reason.
  std::vector<std::string> missing;
};

/// The ways of NCCL. Connects all ranks, which takes a second; the current GPU of the thread must
/// be that of the rank. Each of `on_own_memory` has buffers of `count` floats at most, in memory of
/// its own. Throws Error if NCCL fails. Collective, and so are the destructors.
NcclCalls make_nccl_calls(const ranks::Session& session, std::size_t count);

/// Connects the GPUs with these ordinals by NCCL, as one process may. Leaves the communicators to
/// the end of the process, since NCCL takes a while to free them. In a build without NCCL, throws
/// ContractError.
void connect_plain_nccl(const std::vector<int>& gpus);

}  // namespace shardstream::experiments::machine
