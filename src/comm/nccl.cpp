#include <fcntl.h>
#include <fmt/format.h>
#include <nccl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "comm/collective_wait.hpp"
#include "comm/communicator.hpp"
#include "comm/nccl_messages.hpp"
#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "device/buffer.hpp"

namespace shardstream::comm {
namespace {

/// Captures NCCL's log in memory: the warnings that explain a failure, and the chosen network.
/// Stays empty if the user has asked for NCCL's log. NCCL has one log per process, so there is one
/// object.
class CapturedLog {
 public:
  CapturedLog() {
    constexpr std::array wanted = {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"};
    if (std::ranges::any_of(wanted, [](auto name) { return std::getenv(name) != nullptr; })) return;
    Descriptor memory(memfd_create("nccl-log", MFD_CLOEXEC));
    const std::string path = fmt::format("/proc/self/fd/{}", memory.get());
    // If NCCL cannot open the file, it logs to standard output, which is for results.
    if (!memory.valid() || !Descriptor(path, O_WRONLY).valid()) return;
    // NCCL reads these variables in a thread that starts later. No other thread of this program
    // reads the environment, and those of MPI and CUDA have already read theirs.
    const bool set = setenv("NCCL_DEBUG_FILE", path.c_str(), 1) == 0 &&
                     setenv("NCCL_DEBUG_SUBSYS", "INIT", 1) == 0 &&
                     setenv("NCCL_DEBUG", "INFO", 1) == 0;
    if (set) memory_ = std::move(memory);
  }

  std::string text() const {
    if (!memory_.valid()) return "";
    std::string text(std::size_t{1} << 20, '\0');  // far more than a start logs
    const auto got = memory_.read_at(0, reinterpret_cast<std::byte*>(text.data()), text.size());
    text.resize(static_cast<std::size_t>(std::max<std::int64_t>(got, 0)));
    return text;
  }

 private:
  Descriptor memory_;
};

const CapturedLog& captured_log() {
  static const CapturedLog log;
  return log;
}

std::optional<std::uint64_t> free_shared_memory() {
  struct statvfs free {};
  if (statvfs("/dev/shm", &free) != 0) return std::nullopt;
  return free.f_bavail * free.f_frsize;
}

void check_nccl(ncclResult_t status, const char* call, ncclComm_t comm,
                std::source_location where = std::source_location::current()) {
  if (status == ncclSuccess) return;
  const char* last = ncclGetLastError(comm);
  const std::string message = main_message(captured_log().text(), last != nullptr ? last : "");
  throw Error(
      fmt::format("{} failed ({}{}{}){}", call, ncclGetErrorString(status),
                  message.empty() ? "" : ": ", message, nccl_remedy(message, free_shared_memory())),
      where);
}

/// Bytes of all ranks from which a collective is preceded by a barrier. A smaller one uses few
/// blocks and ends soon.
constexpr std::size_t large_bytes = std::size_t{1} << 20;

/// A collective as a kernel, so that a device::Stream can enqueue it.
template <class Call>
struct CollectiveArgs {
  Call call;  ///< called with the communicator and the stream
  const char* name;
  ncclComm_t comm;
  ranks::Heartbeat* heartbeat;

  Kernel<CollectiveArgs> kernel() const {
    return {name,
            [](const CollectiveArgs&, unsigned, unsigned) {
              throw ContractError("NCCL works only on CUDA streams");
            },
            [](const CollectiveArgs& args, CudaStream stream) {
              // The first call of each kind connects the ranks, and waits for the others.
              const auto waiting = args.heartbeat->waiting();
              check_nccl(args.call(args.comm, stream), args.name, args.comm);
            }};
  }
};

ncclDataType_t nccl_type(SumType type) {
  if (type == SumType::i64) return ncclInt64;
  return type == SumType::f32 ? ncclFloat32 : ncclFloat64;
}

/// The common state of the communicator of all ranks and its parts. All of them end together: NCCL
/// takes 0.5 s to free one, and aborting only one would wait for the kernels of all.
class SharedState {
 public:
  SharedState(device::Device& the_device, const ranks::Session& the_session)
      : device(the_device),
        session(the_session),
        heartbeat(session.heartbeat()),
        wait(device, heartbeat),
        at_hang_(heartbeat, [this] { abort(); }) {}

  /// Destroys the parts before the whole.
  ~SharedState() {
    const std::vector<ncclComm_t> comms = take();
    if (left_) return;
    for (auto comm = comms.rbegin(); comm != comms.rend(); ++comm) {
      if (ncclCommDestroy(*comm) == ncclSuccess) continue;
      warn_plainly("ncclCommDestroy failed");
    }
  }
  SharedState(const SharedState&) = delete;
  SharedState& operator=(const SharedState&) = delete;

  void add(ncclComm_t comm) {
    const std::lock_guard lock(mutex_);
    comms_.push_back(comm);
  }
  /// Leaves freeing to the end of the process.
  void leave() { left_ = true; }
  /// Thread-safe. Ignores errors, since an error is already being reported.
  void abort() {
    const std::vector<ncclComm_t> comms = take();
    if (comms.empty()) return;
    (void)ncclGroupStart();
    for (const ncclComm_t comm : comms) (void)ncclCommAbort(comm);
    (void)ncclGroupEnd();
  }

  device::Device& device;
  const ranks::Session& session;
  ranks::Heartbeat& heartbeat;
  CollectiveWait wait;
  std::string network;

 private:
  std::vector<ncclComm_t> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(comms_, {});
  }

  bool left_ = false;
  std::mutex mutex_;
  std::vector<ncclComm_t> comms_;
  ranks::Heartbeat::AtHang at_hang_;
};

/// Uses NCCL's blocking calls, which wait for other ranks if needed: a non-blocking communicator
/// costs a thread and a pause per collective. If a call never returns, the watchdog ends the job.
class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(device::Device& device, const ranks::Session& session,
                   const std::function<void()>& meanwhile)
      : shared_(std::make_shared<SharedState>(device, session)) {
    captured_log();  // sets NCCL's variables before NCCL reads them
    ncclUniqueId id{};
    session.collectively([&] {
      if (session.rank() == 0) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr);
    });
    const std::string shared = session.broadcast(std::string(id.internal, sizeof(id.internal)));
    std::memcpy(id.internal, shared.data(), sizeof(id.internal));
    int gpu = 0;
    (void)cudaGetDevice(&gpu);  // cannot fail, since the device is current
    auto connecting = std::async(std::launch::async, [&] {
      if (cudaSetDevice(gpu) != cudaSuccess) return ncclUnhandledCudaError;
      return ncclCommInitRank(&comm_, session.size(), id, session.rank());
    });
    meanwhile();
    start([&] { check_nccl(connecting.get(), "ncclCommInitRank", comm_); });
    shared_->network = agreed_network(session);
  }

  /// A part of `whole`. All collectives of `whole` must have ended.
  NcclCommunicator(const NcclCommunicator& whole, int color, int key) : shared_(whole.shared_) {
    start([&] {
      check_nccl(ncclCommSplit(whole.comm_, color, key, &comm_, nullptr), "ncclCommSplit",
                 whole.comm_);
    });
  }

  /// Aborts after an error, since the peers may not get here.
  ~NcclCommunicator() override {
    if (std::uncaught_exceptions() > 0) shared_->abort();
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  std::string transport() const override { return "nccl"; }
  bool blocks() const override { return false; }
  std::string network() const override { return shared_->network; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Communicator> split(int color, int key) override {
    expect(size_ == shared_->session.size(), "only the communicator of all ranks is split");
    return std::make_unique<NcclCommunicator>(*this, color, key);
  }

  void all_gather(device::Stream& stream, const void* send, void* receive,
                  std::size_t bytes) override {
    enqueue(stream, "ncclAllGather", whole(bytes), [=](ncclComm_t comm, CudaStream on) {
      return ncclAllGather(send, receive, bytes, ncclInt8, comm, on);
    });
  }

  void all_to_all(device::Stream& stream, const void* send, void* receive,
                  std::size_t bytes) override {
    enqueue(stream, "ncclSend and ncclRecv", whole(bytes),
            [=, size = size_](ncclComm_t comm, CudaStream on) {
              const auto* from = static_cast<const std::byte*>(send);
              auto* to = static_cast<std::byte*>(receive);
              ncclResult_t status = ncclGroupStart();
              for (int rank = 0; rank < size && status == ncclSuccess;
                   ++rank, from += bytes, to += bytes) {
                status = ncclSend(from, bytes, ncclInt8, rank, comm, on);
                if (status == ncclSuccess) status = ncclRecv(to, bytes, ncclInt8, rank, comm, on);
              }
              const ncclResult_t ended = ncclGroupEnd();
              return status == ncclSuccess ? ended : status;
            });
  }

  void reduce_scatter(device::Stream& stream, const void* send, void* receive, std::size_t count,
                      SumType type) override {
    enqueue(stream, "ncclReduceScatter", whole(count * size_of(type)),
            [=](ncclComm_t comm, CudaStream on) {
              return ncclReduceScatter(send, receive, count, nccl_type(type), ncclSum, comm, on);
            });
  }

  void all_reduce(device::Stream& stream, const void* send, void* receive, std::size_t count,
                  SumType type) override {
    enqueue(stream, "ncclAllReduce", count * size_of(type), [=](ncclComm_t comm, CudaStream on) {
      return ncclAllReduce(send, receive, count, nccl_type(type), ncclSum, comm, on);
    });
  }

  void broadcast(device::Stream& stream, void* data, std::size_t bytes, int root) override {
    enqueue(stream, "ncclBroadcast", bytes, [=](ncclComm_t comm, CudaStream on) {
      return ncclBroadcast(data, data, bytes, ncclInt8, root, comm, on);
    });
  }

  void connect() override {
    const auto each = static_cast<std::size_t>(size_);
    const device::Buffer<std::byte> bytes(shared_->device, device::Memory::device, 2 * each);
    const auto stream = shared_->device.make_stream();
    all_to_all(*stream, bytes.data(), bytes.data() + each, 1);
    wait(*stream);
  }

  void wait(device::Stream& stream) override { shared_->wait.synchronize(stream); }

  void leave() override { shared_->leave(); }

 private:
  /// `bytes` is the larger of the bytes that a rank sends and receives.
  template <class Call>
  void enqueue(device::Stream& stream, const char* name, std::size_t bytes, Call call) {
    if (bytes == 0) return;
    shared_->wait.begin(stream);
    if (size_ > 1 && bytes >= large_bytes) barrier(stream);
    launch(stream, name, call);
    shared_->wait.end(stream);
  }

  std::size_t whole(std::size_t part) const { return part * static_cast<std::size_t>(size_); }

  template <class Call>
  void launch(device::Stream& stream, const char* name, Call call) {
    const CollectiveArgs<Call> args{call, name, comm_, &shared_->heartbeat};
    stream.launch(args.kernel(), args);
  }

  /// Gathers one byte per rank. This takes one block, in which early ranks wait for the others. In
  /// a large collective they would wait with many blocks, each of which keeps a multiprocessor from
  /// the kernels of other streams.
  void barrier(device::Stream& stream) {
    auto* const all = barrier_bytes_.data();
    launch(stream, "ncclAllGather", [all, rank = rank_](ncclComm_t comm, CudaStream on) {
      return ncclAllGather(all + rank, all, 1, ncclInt8, comm, on);
    });
  }

  /// Creates comm_ by calling `connect`. Collective over all ranks; throws AgreedError if it fails
  /// on any of them.
  void start(const std::function<void()>& connect) {
    const ranks::Session& session = shared_->session;
    std::unique_ptr<device::Stream> stream;
    constexpr std::size_t word = 16;  // NCCL reads whole words, even for one byte
    session.collectively([&] {
      const auto bytes = static_cast<std::size_t>(session.size());
      barrier_bytes_ = {shared_->device, device::Memory::device, (bytes + word - 1) / word * word};
      stream = shared_->device.make_stream();
    });
    std::string failure;
    try {
      const auto waiting = shared_->heartbeat.waiting();
      connect();
      check_nccl(ncclCommUserRank(comm_, &rank_), "ncclCommUserRank", comm_);
      check_nccl(ncclCommCount(comm_, &size_), "ncclCommCount", comm_);
      // NCCL connects the ranks in the first call, so that failures to connect appear here.
      all_gather(*stream, barrier_bytes_.data() + rank_, barrier_bytes_.data(), 1);
    } catch (const Error& error) {
      failure = error.what();
      abort();  // so that the others do not wait for this rank
    }
    const auto failures = session.gather(failure);
    const std::size_t cause = first_cause(failures);
    if (cause < failures.size()) abort();  // otherwise the enqueued call would never end
    session.collectively([&] {
      if (cause == static_cast<std::size_t>(session.rank())) throw Error(failure);
    });
    shared_->add(comm_);
    try {
      wait(*stream);
    } catch (const Error&) {
      shared_->abort();
      throw;
    }
  }

  /// The network of all ranks. Collective.
  static std::string agreed_network(const ranks::Session& session) {
    if (session.local_size() == session.size()) return "within one host";
    auto names = session.gather(network_in(captured_log().text()));
    std::ranges::sort(names);
    names.erase(std::ranges::unique(names).begin(), names.end());
    if (names.front().empty()) names.front() = "unknown";
    return join(names, ", ");
  }

  /// Aborts all communicators, including one that is being created.
  void abort() {
    if (comm_ != nullptr) shared_->add(std::exchange(comm_, nullptr));
    shared_->abort();
  }

  std::shared_ptr<SharedState> shared_;
  ncclComm_t comm_ = nullptr;
  int rank_ = 0, size_ = 1;
  device::Buffer<std::byte> barrier_bytes_;  ///< at least one byte per rank, for barrier()
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(device::Device& device,
                                                     const ranks::Session& session,
                                                     const std::function<void()>& meanwhile) {
  return std::make_unique<NcclCommunicator>(device, session, meanwhile);
}

std::string nccl_version() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "ncclGetVersion", nullptr);
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace shardstream::comm
