#include "device/cuda/cuda_device.hpp"
#include "support/backend.hpp"

namespace shardstream::test {

std::unique_ptr<device::Device> make_backend() {
  return device::cuda::make_device(0, 2);
}

}  // namespace shardstream::test
