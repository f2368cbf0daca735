#include <fmt/format.h>
#include <nccl.h>
#include <sys/statvfs.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>

#include "comm/collective_wait.hpp"
#include "comm/communicator.hpp"
#include "core/error.hpp"
#include "core/units.hpp"

namespace shardstream::comm {
namespace {

using Clock = std::chrono::steady_clock;

/// What the user can do; empty where NCCL's own words say all.
std::string remedy(const std::string& words) {
  if (words.find("/dev/shm") != words.npos || words.find("shared memory") != words.npos) {
    struct statvfs room {};
    const bool known = statvfs("/dev/shm", &room) == 0;
    return fmt::format(
        ": NCCL needs room in /dev/shm{}: make it larger (docker run --shm-size=1g, or remount "
        "it), or pass --comm.transport mpi",
        known ? fmt::format(", which has {} left", format_size(room.f_bavail * room.f_frsize))
              : "");
  }
  if (words.find("Duplicate GPU") != words.npos) {
    return ": two ranks use one GPU, which NCCL refuses: start one rank a GPU, or pass "
           "--comm.transport mpi";
  }
  return ": NCCL_DEBUG=WARN tells more; --comm.transport mpi goes without NCCL";
}

void check_nccl(ncclResult_t status, const char* call, ncclComm_t comm,
                std::source_location where = std::source_location::current()) {
  if (status == ncclSuccess) return;
  const char* last = ncclGetLastError(comm);
  const std::string words = last != nullptr ? last : "";
  throw Error(fmt::format("{} failed ({}{}{}){}", call, ncclGetErrorString(status),
                          words.empty() ? "" : ": ", words, remedy(words)),
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

struct AllGatherArgs {
  ncclComm_t comm;
  double timeout;  ///< seconds for NCCL's own preparations, which the first call makes
  launch::Heartbeat* heartbeat;
  const void* send;
  void* receive;
  std::size_t bytes;
};

/// A collective is a kernel to the seam: it is enqueued on a stream like any other.
constexpr Kernel<AllGatherArgs> all_gather_kernel = {
    "ncclAllGather",
    [](const AllGatherArgs&, unsigned, unsigned) {
      throw ContractError("NCCL works on CUDA streams alone");
    },
    [](const AllGatherArgs& args, CudaStream stream) {
      finish(ncclAllGather(args.send, args.receive, args.bytes, ncclInt8, args.comm, stream),
             "ncclAllGather", args.comm, after(args.timeout), *args.heartbeat);
    }};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(device::Device& device, const launch::Session& session, double timeout)
      : heartbeat_(session.heartbeat()), wait_(device, heartbeat_), timeout_(timeout) {
    ncclUniqueId id{};
    session.collectively([&] {
      if (session.rank() == 0) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr);
    });
    const std::string shared = session.broadcast(std::string(id.internal, sizeof(id.internal)));
    std::memcpy(id.internal, shared.data(), sizeof(id.internal));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const auto deadline = after(timeout);
    session.collectively([&] {
      try {
        const ncclResult_t status =
            ncclCommInitRankConfig(&comm_, session.size(), id, session.rank(), &config);
        finish(status, "ncclCommInitRankConfig", comm_, deadline, heartbeat_);
      } catch (const Error&) {
        abort();
        throw;
      }
    });
    at_hang_.emplace(heartbeat_, [this] { (void)ncclCommAbort(comm_); });
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

  void all_gather(device::Stream& stream, const void* send, void* receive,
                  std::size_t bytes) override {
    wait_.begin(stream);
    stream.launch(all_gather_kernel, {comm_, timeout_, &heartbeat_, send, receive, bytes});
  }

  void wait(device::Stream& stream) override { wait_.end(stream); }

 private:
  void abort() {
    if (comm_ != nullptr) (void)ncclCommAbort(comm_);  // an error is on its way already
    comm_ = nullptr;
  }

  launch::Heartbeat& heartbeat_;
  CollectiveWait wait_;
  double timeout_;
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
