#include "device/host/host_device.hpp"
#include "support/backend.hpp"

namespace shardstream::test {

std::unique_ptr<device::Device> make_backend() {
  return device::host::make_device(3);
}

}  // namespace shardstream::test
