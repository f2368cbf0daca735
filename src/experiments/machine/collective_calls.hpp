// The ways in which the experiment `collectives` makes its calls.
#pragma once

#include <memory>
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

/// The names of two ways.
inline constexpr std::string_view nccl_plain_loop = "NCCL, plain loop",
                                  nccl_in_a_run = "NCCL, in a run";

/// One way to make collective calls. All members are collective.
class CollectiveCalls {
 public:
  virtual ~CollectiveCalls() = default;
  virtual std::string_view name() const = 0;
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

/// A plain loop of NCCL's calls on a communicator of its own, as nccl-tests makes them. Connects
/// all ranks, which takes a second; the current GPU of the thread must be that of the rank. Null in
/// a build without NCCL. Collective, and so is the destructor.
std::unique_ptr<CollectiveCalls> make_plain_nccl(const ranks::Session& session);

/// Connects the GPUs with these ordinals by NCCL, as one process may. Leaves the communicators to
/// the end of the process, since NCCL takes a while to free them. In a build without NCCL, throws
/// ContractError.
void connect_plain_nccl(const std::vector<int>& gpus);

}  // namespace shardstream::experiments::machine
