#include "device/host/host_device.hpp"
#include "support/session.hpp"
#include "support/transports.hpp"

namespace shardstream::test {

std::optional<int> exit_code_without_hardware() {
  return std::nullopt;
}

std::vector<std::string> transports() {
  return {"mpi"};
}

std::unique_ptr<device::Device> make_own_device() {
  return device::host::make_device(2);
}

std::unique_ptr<comm::Communicator> connect(const std::string&, device::Device& device,
                                            std::size_t piece) {
  return comm::make_mpi_communicator(device, session(), piece);
}

}  // namespace shardstream::test
