#include "device/cuda/cuda_device.hpp"
#include "gpu/need_gpus.hpp"
#include "support/session.hpp"
#include "support/transports.hpp"

namespace shardstream::test {

std::optional<int> exit_code_without_hardware() {
  return exit_code_without_gpus(session().local_size());
}

std::vector<std::string> transports() {
  if (comm::nccl_version().empty()) return {"mpi"};
  return {"nccl", "mpi"};
}

std::unique_ptr<device::Device> make_own_device() {
  return device::cuda::make_device(session().local_rank(), 2);
}

std::unique_ptr<comm::Communicator> connect(const std::string& transport, device::Device& device,
                                            std::size_t piece) {
  if (transport == "nccl") return comm::make_nccl_communicator(device, session(), [] {});
  return comm::make_mpi_communicator(device, session(), piece);
}

}  // namespace shardstream::test
