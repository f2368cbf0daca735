#include <mpi.h>

#include <limits>

#include "comm/communicator.hpp"
#include "core/error.hpp"
#include "device/buffer.hpp"
#include "launch/session.hpp"

namespace shardstream::comm {
namespace {

using device::Buffer;
using device::Memory;

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(device::Device& device, const launch::Session& session, std::size_t most)
      : heartbeat_(session.heartbeat()),
        network_(session.local_size() == session.size() ? "within one host" : "MPI"),
        ranks_(static_cast<std::size_t>(session.size())),
        send_(device, Memory::pinned, most),
        receive_(device, Memory::pinned, most * ranks_) {}

  std::string transport() const override { return "mpi"; }
  std::string network() const override { return network_; }

  void all_gather(device::Stream& stream, const void* send, void* receive,
                  std::size_t bytes) override {
    expect(bytes <= send_.size(), "an all-gather of no more than announced");
    expect(bytes <= std::numeric_limits<int>::max(), "an all-gather that MPI can count");
    stream.download(send_.data(), send, bytes);
    stream.synchronize();
    const int count = static_cast<int>(bytes);
    const auto waiting = heartbeat_.waiting();
    launch::check_mpi(MPI_Allgather(send_.data(), count, MPI_BYTE, receive_.data(), count, MPI_BYTE,
                                    MPI_COMM_WORLD),
                      "MPI_Allgather");
    stream.upload(receive, receive_.data(), bytes * ranks_);
  }

  /// all_gather() has waited for the others; what is left is this rank's own upload.
  void wait(device::Stream& stream) override { stream.synchronize(); }

 private:
  launch::Heartbeat& heartbeat_;
  std::string network_;
  std::size_t ranks_;
  Buffer<std::byte> send_, receive_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(device::Device& device,
                                                    const launch::Session& session,
                                                    std::size_t most) {
  return std::make_unique<MpiCommunicator>(device, session, most);
}

}  // namespace shardstream::comm
