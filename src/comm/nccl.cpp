#include <fcntl.h>
#include <fmt/format.h>
#include <nccl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>

#include "comm/collective_wait.hpp"
#include "comm/communicator.hpp"
#include "comm/nccl_words.hpp"
#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "device/buffer.hpp"

namespace shardstream::comm {
namespace {

using Clock = std::chrono::steady_clock;

/// What NCCL logs, in memory: all warnings of a failure, and which network it has chosen. Empty if
/// the user has asked for NCCL's log. One a process, as NCCL's log is.
class KeptLog {
 public:
  KeptLog() {
    constexpr std::array wanted = {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"};
    if (std::ranges::any_of(wanted, [](auto name) { return std::getenv(name) != nullptr; })) return;
    Descriptor memory(memfd_create("nccl-log", MFD_CLOEXEC));
    const std::string path = fmt::format("/proc/self/fd/{}", memory.get());
    // A file that it cannot open NCCL replaces by standard output, which is for results.
    if (!memory.valid() || !Descriptor(path, O_WRONLY).valid()) return;
    // NCCL reads these before it starts threads; of the threads that are there already, none of
    // this program reads the environment, and MPI's and CUDA's own have read theirs.
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

const KeptLog& kept_log() {
  static const KeptLog log;
  return log;
}

std::optional<std::uint64_t> room_in_shared_memory() {
  struct statvfs room {};
  if (statvfs("/dev/shm", &room) != 0) return std::nullopt;
  return room.f_bavail * room.f_frsize;
}

void check_nccl(ncclResult_t status, const char* call, ncclComm_t comm,
                std::source_location where = std::source_location::current()) {
  if (status == ncclSuccess) return;
  const char* last = ncclGetLastError(comm);
  const std::string words = telling_words(kept_log().text(), last != nullptr ? last : "");
  throw Error(
      fmt::format("{} failed ({}{}{}){}", call, ncclGetErrorString(status),
                  words.empty() ? "" : ": ", words, nccl_remedy(words, room_in_shared_memory())),
      where);
}

Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// Of a communicator that does not block, a call may go on after it has returned, mostly since it
/// needs the other ranks.
void finish(ncclResult_t status, const char* call, ncclComm_t comm, Clock::time_point deadline,
            launch::Heartbeat& heartbeat) {
  std::optional<launch::Heartbeat::Waiting> waiting;
  if (status == ncclInProgress) waiting.emplace(heartbeat);
  while (status == ncclInProgress) {
    if (Clock::now() > deadline) {
      throw Error(
          fmt::format("{} has not ended in time: a rank does not take part, or the "
                      "network between the hosts is blocked (NCCL_SOCKET_IFNAME names "
                      "another one)",
                      call));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &status);
    if (asked != ncclSuccess) status = asked;
  }
  check_nccl(status, call, comm);
}

/// A collective is a kernel to the seam: it is enqueued on a stream like any other.
template <class Call>
struct CollectiveArgs {
  Call call;  ///< with the communicator and the stream
  const char* name;
  ncclComm_t comm;
  double timeout;  ///< seconds for NCCL's own preparations, which the first call makes
  launch::Heartbeat* heartbeat;

  Kernel<CollectiveArgs> kernel() const {
    return {name,
            [](const CollectiveArgs&, unsigned, unsigned) {
              throw ContractError("NCCL works on CUDA streams alone");
            },
            [](const CollectiveArgs& args, CudaStream stream) {
              finish(args.call(args.comm, stream), args.name, args.comm, after(args.timeout),
                     *args.heartbeat);
            }};
  }
};

ncclDataType_t nccl_type(SumType type) {
  if (type == SumType::i64) return ncclInt64;
  return type == SumType::f32 ? ncclFloat32 : ncclFloat64;
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(device::Device& device, const launch::Session& session, double timeout)
      : heartbeat_(session.heartbeat()), wait_(device, heartbeat_), timeout_(timeout) {
    kept_log();  // before NCCL looks for it
    ncclUniqueId id{};
    session.collectively([&] {
      if (session.rank() == 0) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr);
    });
    const std::string shared = session.broadcast(std::string(id.internal, sizeof(id.internal)));
    std::memcpy(id.internal, shared.data(), sizeof(id.internal));
    device::Buffer<std::byte> send, receive;
    std::unique_ptr<device::Stream> stream;
    session.collectively([&] {
      constexpr std::size_t bytes = 256;
      send = {device, device::Memory::device, bytes};
      receive = {device, device::Memory::device, bytes * static_cast<std::size_t>(session.size())};
      stream = device.make_stream();
    });
    std::string failure;
    try {
      start(session, id);
      // NCCL connects the ranks in the first call: what cannot be is better known here.
      all_gather(*stream, send.data(), receive.data(), send.bytes());
    } catch (const Error& error) {
      failure = error.what();
      abort();  // so that the others do not wait for this rank
    }
    const auto failures = session.gather(failure);
    const std::size_t cause = first_cause(failures);
    if (cause < failures.size()) abort();  // what is under way would never end
    session.collectively([&] {
      if (cause == static_cast<std::size_t>(session.rank())) throw Error(failure);
    });
    at_hang_.emplace(heartbeat_, [this] { (void)ncclCommAbort(comm_); });
    try {
      wait(*stream);
    } catch (const Error&) {
      abort();
      throw;
    }
    network_ = agreed_network(session);
  }

  /// After an error the peers may not come to a common end.
  ~NcclCommunicator() override {
    at_hang_.reset();
    if (std::uncaught_exceptions() > 0) {
      abort();
    } else if (comm_ != nullptr && ncclCommDestroy(comm_) != ncclSuccess) {
      std::fputs("warning: ncclCommDestroy failed\n", stderr);
    }
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  std::string transport() const override { return "nccl"; }
  std::string network() const override { return network_; }

  void all_gather(device::Stream& stream, const void* send, void* receive,
                  std::size_t bytes) override {
    enqueue(stream, "ncclAllGather", bytes, [=](ncclComm_t comm, CudaStream on) {
      return ncclAllGather(send, receive, bytes, ncclInt8, comm, on);
    });
  }

  void reduce_scatter(device::Stream& stream, const void* send, void* receive, std::size_t count,
                      SumType type) override {
    enqueue(stream, "ncclReduceScatter", count, [=](ncclComm_t comm, CudaStream on) {
      return ncclReduceScatter(send, receive, count, nccl_type(type), ncclSum, comm, on);
    });
  }

  void all_reduce(device::Stream& stream, const void* send, void* receive, std::size_t count,
                  SumType type) override {
    enqueue(stream, "ncclAllReduce", count, [=](ncclComm_t comm, CudaStream on) {
      return ncclAllReduce(send, receive, count, nccl_type(type), ncclSum, comm, on);
    });
  }

  void broadcast(device::Stream& stream, void* data, std::size_t bytes, int root) override {
    enqueue(stream, "ncclBroadcast", bytes, [=](ncclComm_t comm, CudaStream on) {
      return ncclBroadcast(data, data, bytes, ncclInt8, root, comm, on);
    });
  }

  void wait(device::Stream& stream) override { wait_.end(stream); }

 private:
  template <class Call>
  void enqueue(device::Stream& stream, const char* name, std::size_t count, Call call) {
    if (count == 0) return;
    wait_.begin(stream);
    const CollectiveArgs<Call> args{call, name, comm_, timeout_, &heartbeat_};
    stream.launch(args.kernel(), args);
  }

  void start(const launch::Session& session, const ncclUniqueId& id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const ncclResult_t status =
        ncclCommInitRankConfig(&comm_, session.size(), id, session.rank(), &config);
    finish(status, "ncclCommInitRankConfig", comm_, after(timeout_), heartbeat_);
  }

  /// Collective.
  static std::string agreed_network(const launch::Session& session) {
    if (session.local_size() == session.size()) return "within one host";
    auto names = session.gather(network_in(kept_log().text()));
    std::ranges::sort(names);
    names.erase(std::ranges::unique(names).begin(), names.end());
    if (names.front().empty()) names.front() = "unknown";
    return join(std::vector<std::string_view>(names.begin(), names.end()), ", ");
  }

  /// Not while the watchdog might do the same.
  void abort() {
    at_hang_.reset();
    if (comm_ != nullptr) (void)ncclCommAbort(comm_);  // an error is on its way already
    comm_ = nullptr;
  }

  launch::Heartbeat& heartbeat_;
  CollectiveWait wait_;
  double timeout_;
  std::string network_;
  ncclComm_t comm_ = nullptr;
  std::optional<launch::Heartbeat::AtHang> at_hang_;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(device::Device& device,
                                                     const launch::Session& session,
                                                     double timeout) {
  return std::make_unique<NcclCommunicator>(device, session, timeout);
}

std::string nccl_version() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "ncclGetVersion", nullptr);
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace shardstream::comm
