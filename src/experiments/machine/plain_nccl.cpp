// The calls of NCCL as nccl-tests makes them: one after another on a stream, with nothing between
// them. The program's own communicator (comm/nccl.cpp) puts events around each call, and a barrier
// before large ones. Newer versions of NCCL have faster ways for memory that it knows.
#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/log.hpp"
#include "experiments/endings.hpp"
#include "experiments/machine/collective_calls.hpp"
#include "experiments/machine/nccl_features.hpp"
#include "experiments/machine/window_kernel.hpp"

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

  ranks::Heartbeat& heartbeat() const { return heartbeat_; }
  /// Null after abort().
  ncclComm_t comm() {
    const std::lock_guard lock(mutex_);
    return comm_;
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

int library_version() {
  int version = 0;
  check(ncclGetVersion(&version), "ncclGetVersion");
  return version;
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
/// Two buffers of `count` floats that NCCL has allocated, in one piece: NCCL can map such memory
/// into the other GPUs.
class NcclMemory {
 public:
  explicit NcclMemory(std::size_t count)
      : count_(count), half_((count * sizeof(float) + granule - 1) / granule * granule) {
    const auto allocate = find(&ncclMemAlloc, "ncclMemAlloc");
    if (allocate == nullptr) throw Error("libnccl has no ncclMemAlloc");
    check(allocate(&data_, bytes()), "ncclMemAlloc");
  }
  ~NcclMemory() {
    const auto release = find(&ncclMemFree, "ncclMemFree");
    if (release(data_) != ncclSuccess) warn_plainly("ncclMemFree failed");
  }
  NcclMemory(const NcclMemory&) = delete;
  NcclMemory& operator=(const NcclMemory&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return 2 * half_; }
  std::size_t receive_offset() const { return half_; }
  WayMemory way_memory() const {
    auto* const bytes = static_cast<std::byte*>(data_);
    return {{reinterpret_cast<float*>(bytes), reinterpret_cast<float*>(bytes + half_)}, count_};
  }

 private:
  static constexpr std::size_t granule = std::size_t{2} << 20;  // more than any alignment of NCCL
  std::size_t count_, half_;
  void* data_ = nullptr;
};

/// The plain loop on memory of NCCL, which the derived classes make known to the communicator.
class CallsOnOwnMemory : public CollectiveCalls {
 public:
  CallsOnOwnMemory(PlainNccl& plain, std::size_t count) : plain_(plain), memory_(count) {}

  std::optional<WayMemory> memory() const override { return memory_.way_memory(); }
  void enqueue(device::Stream& stream, const Message& message, const Buffers& buffers,
               unsigned calls) override {
    plain_.enqueue(stream, message, buffers, calls);
  }
  void wait(device::Stream& stream) override { plain_.wait(stream); }

 protected:
  /// The communicator if its registrations can be released: null after an error, after which the
  /// communicator is aborted with all that it has.
  ncclComm_t comm_to_release() { return std::uncaught_exceptions() > 0 ? nullptr : plain_.comm(); }

  PlainNccl& plain_;
  NcclMemory memory_;
};

class RegisteredCalls final : public CallsOnOwnMemory {
 public:
  RegisteredCalls(PlainNccl& plain, std::size_t count) : CallsOnOwnMemory(plain, count) {
    const auto add = find(&ncclCommRegister, "ncclCommRegister");
    if (add == nullptr) throw Error("libnccl has no ncclCommRegister");
    check(add(plain.comm(), memory_.data(), memory_.bytes(), &handle_), "ncclCommRegister");
  }
  ~RegisteredCalls() override {
    const ncclComm_t comm = comm_to_release();
    const auto remove = find(&ncclCommDeregister, "ncclCommDeregister");
    if (comm == nullptr || handle_ == nullptr) return;
    if (remove(comm, handle_) != ncclSuccess) warn_plainly("ncclCommDeregister failed");
  }
  std::string_view name() const override { return nccl_registered; }

 private:
  void* handle_ = nullptr;
};
#endif

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
/// NCCL has kernels that load and store in the windows of other GPUs, except for broadcasts.
class WindowCalls final : public CallsOnOwnMemory {
 public:
  WindowCalls(PlainNccl& plain, std::size_t count) : CallsOnOwnMemory(plain, count) {
    const auto add = find(&ncclCommWindowRegister, "ncclCommWindowRegister");
    if (add == nullptr) throw Error("libnccl has no ncclCommWindowRegister");
    const auto waiting = plain.heartbeat().waiting();  // for the windows of the other ranks
    check(add(plain.comm(), memory_.data(), memory_.bytes(), &window_, NCCL_WIN_COLL_SYMMETRIC),
          "ncclCommWindowRegister");
  }
  ~WindowCalls() override {
    const ncclComm_t comm = comm_to_release();
    const auto remove = find(&ncclCommWindowDeregister, "ncclCommWindowDeregister");
    if (comm == nullptr || window_ == nullptr) return;
    if (remove(comm, window_) != ncclSuccess) warn_plainly("ncclCommWindowDeregister failed");
  }
  std::string_view name() const override { return nccl_windows; }
  bool takes(const Message& message) const override {
    return message.collective != Collective::broadcast;
  }
  SymmetricWindow window() const {
    return {window_, memory_.receive_offset(), memory_.way_memory().count};
  }

 private:
  ncclWindow_t window_ = nullptr;
};

/// The kernel of window_kernel.cu, for small all-reduces, in the windows of another way.
class OwnKernelCalls final : public CollectiveCalls {
 public:
  OwnKernelCalls(PlainNccl& plain, const CollectiveCalls& windows,
                 std::unique_ptr<WindowKernel> kernel)
      : plain_(plain), windows_(windows), kernel_(std::move(kernel)) {}
  ~OwnKernelCalls() override {
    if (std::uncaught_exceptions() == 0 && plain_.comm() != nullptr) kernel_->release();
  }
  OwnKernelCalls(const OwnKernelCalls&) = delete;
  OwnKernelCalls& operator=(const OwnKernelCalls&) = delete;

  std::string_view name() const override { return nccl_own_kernel; }
  std::optional<WayMemory> memory() const override { return windows_.memory(); }
  bool takes(const Message& message) const override {
    constexpr std::size_t max_bytes = std::size_t{256} << 10;
    return message.collective == Collective::all_reduce && message.bytes() <= max_bytes;
  }
  void enqueue(device::Stream& stream, const Message& message, const Buffers&,
               unsigned calls) override {
    kernel_->enqueue(stream, message.count, calls);
  }
  void wait(device::Stream& stream) override { plain_.wait(stream); }

 private:
  PlainNccl& plain_;
  const CollectiveCalls& windows_;
  std::unique_ptr<WindowKernel> kernel_;
};
#endif

/// The first reason of any rank, the same on all of them. Collective.
std::string reason_of_ranks(const ranks::Session& session, const std::string& why) {
  const std::vector<std::string> all = session.gather(why);
  const auto first = std::ranges::find_if(all, [](const auto& each) { return !each.empty(); });
  return first == all.end() ? "" : *first;
}

/// Adds the way that `make` makes, if all ranks have `feature`; otherwise a sentence. `make`
/// returns null and the reason if the way does not work here.
template <class Make>
void add_way(const ranks::Session& session, NcclFeature feature, std::string_view name,
             NcclCalls& calls, Make make) {
  std::string why =
      reason_of_ranks(session, why_without(feature, NCCL_VERSION_CODE, library_version()));
  if (why.empty()) {
    std::unique_ptr<CollectiveCalls> made;
    agree(session, [&] { made = make(why); });
    why = reason_of_ranks(session, why);
    if (why.empty()) calls.on_own_memory.push_back(std::move(made));
  }
  if (!why.empty()) {
    calls.missing.push_back("There are no rows of \"" + std::string(name) + "\": " + why + ".");
  }
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
void add_windows(const ranks::Session& session, PlainNccl& plain, std::size_t count,
                 NcclCalls& calls) {
  const WindowCalls* windows = nullptr;
  add_way(session, NcclFeature::windows, nccl_windows, calls, [&](std::string&) {
    auto made = std::make_unique<WindowCalls>(plain, count);
    windows = made.get();
    return made;
  });
  if (windows == nullptr) return;
  add_way(session, NcclFeature::device_code, nccl_own_kernel, calls,
          [&](std::string& why) -> std::unique_ptr<CollectiveCalls> {
            const auto waiting = plain.heartbeat().waiting();
            auto kernel =
                make_window_kernel(plain.comm(), windows->window(), library_version(), why);
            if (!kernel) return nullptr;
            return std::make_unique<OwnKernelCalls>(plain, *windows, std::move(kernel));
          });
}
#else
void add_windows(const ranks::Session& session, PlainNccl&, std::size_t, NcclCalls& calls) {
  const auto none = [](std::string&) { return std::unique_ptr<CollectiveCalls>(); };
  add_way(session, NcclFeature::windows, nccl_windows, calls, none);
}
#endif

}  // namespace

NcclCalls make_nccl_calls(const ranks::Session& session, std::size_t count) {
  NcclCalls calls;
  auto plain = std::make_unique<PlainNccl>(session);
  PlainNccl& shared = *plain;
  calls.plain = std::move(plain);
  add_way(session, NcclFeature::registration, nccl_registered, calls,
          [&]([[maybe_unused]] std::string& why) -> std::unique_ptr<CollectiveCalls> {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
            return std::make_unique<RegisteredCalls>(shared, count);
#else
            return nullptr;
#endif
          });
  add_windows(session, shared, count, calls);
  return calls;
}

void connect_plain_nccl(const std::vector<int>& gpus) {
  std::vector<ncclComm_t> comms(gpus.size());
  check(ncclCommInitAll(comms.data(), static_cast<int>(gpus.size()), gpus.data()),
        "ncclCommInitAll");
}

}  // namespace shardstream::experiments::machine
