// The calls of NCCL as nccl-tests makes them: one after another on a stream, with nothing between
// them. The program's own communicator (comm/nccl.cpp) puts events around each call, and a barrier
// before large ones.
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/log.hpp"
#include "experiments/endings.hpp"
#include "experiments/machine/collective_calls.hpp"

namespace shardstream::experiments::machine {
namespace {

void check(ncclResult_t status, const char* call) {
  if (status == ncclSuccess) return;
  throw Error(std::string(call) + " failed (" + ncclGetErrorString(status) + ")");
}

/// A loop of equal calls, as a kernel, so that a device::Stream can enqueue it.
struct LoopArgs {
  ncclComm_t comm;
  int rank;
  Message message;
  Buffers buffers;
  unsigned calls;

  Kernel<LoopArgs> kernel() const {
    return {"a loop of NCCL's calls",
            [](const LoopArgs&, unsigned, unsigned) {
              throw ContractError("NCCL works only on CUDA streams");
            },
            [](const LoopArgs& loop, CudaStream stream) {
              for (unsigned i = 0; i < loop.calls; ++i) check(loop.call(stream), "a call of NCCL");
            }};
  }

  ncclResult_t call(CudaStream stream) const {
    const auto [send, receive] = buffers;
    const std::size_t count = message.count, part = message.part();
    switch (message.collective) {
      case Collective::all_reduce:
        return ncclAllReduce(send, receive, count, ncclFloat, ncclSum, comm, stream);
      case Collective::reduce_scatter:
        return ncclReduceScatter(send, receive, part, ncclFloat, ncclSum, comm, stream);
      case Collective::all_gather:
        return ncclAllGather(send, receive, part, ncclFloat, comm, stream);
      case Collective::broadcast:
        break;
    }
    float* const data = buffers.of_broadcast(rank);
    return ncclBroadcast(data, data, count, ncclFloat, 0, comm, stream);
  }
};

class PlainNccl final : public CollectiveCalls {
 public:
  explicit PlainNccl(const ranks::Session& session)
      : rank_(session.rank()),
        heartbeat_(session.heartbeat()),
        at_hang_(heartbeat_, [this] { abort(); }) {
    ncclUniqueId id{};
    agree(session, [&] {
      if (rank_ == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    });
    const std::string shared = session.broadcast(std::string(id.internal, sizeof(id.internal)));
    std::memcpy(id.internal, shared.data(), sizeof(id.internal));
    agree(session, [&] {
      const auto waiting = heartbeat_.waiting();
      check(ncclCommInitRank(&comm_, session.size(), id, rank_), "ncclCommInitRank");
    });
  }
  /// Aborts after an error, since the other ranks may not get here.
  ~PlainNccl() override {
    if (std::uncaught_exceptions() > 0) abort();
    const ncclComm_t comm = take();
    if (comm != nullptr && ncclCommDestroy(comm) != ncclSuccess) {
      warn_plainly("ncclCommDestroy failed");
    }
  }
  PlainNccl(const PlainNccl&) = delete;
  PlainNccl& operator=(const PlainNccl&) = delete;

  std::string_view name() const override { return nccl_plain_loop; }
  void enqueue(device::Stream& stream, const Message& message, const Buffers& buffers,
               unsigned calls) override {
    const auto waiting = heartbeat_.waiting();  // the first call connects the ranks
    const LoopArgs loop{comm_, rank_, message, buffers, calls};
    stream.launch(loop.kernel(), loop);
  }
  void wait(device::Stream& stream) override {
    const auto waiting = heartbeat_.waiting();
    stream.synchronize();
  }

 private:
  ncclComm_t take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(comm_, nullptr);
  }
  /// Thread-safe. Ignores errors, since an error is already being reported.
  void abort() {
    if (const ncclComm_t comm = take(); comm != nullptr) (void)ncclCommAbort(comm);
  }

  int rank_;
  ranks::Heartbeat& heartbeat_;
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;
  ranks::Heartbeat::AtHang at_hang_;  // last: it uses the rest
};

}  // namespace

std::unique_ptr<CollectiveCalls> make_plain_nccl(const ranks::Session& session) {
  return std::make_unique<PlainNccl>(session);
}

void connect_plain_nccl(const std::vector<int>& gpus) {
  std::vector<ncclComm_t> comms(gpus.size());
  check(ncclCommInitAll(comms.data(), static_cast<int>(gpus.size()), gpus.data()),
        "ncclCommInitAll");
}

}  // namespace shardstream::experiments::machine
