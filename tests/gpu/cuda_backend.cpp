#include "contract/backend.hpp"
#include "device/cuda/cuda_device.hpp"

namespace shardstream::test {

std::unique_ptr<device::Device> make_backend() {
  return device::cuda::make_device(0, 2);
}

}  // namespace shardstream::test
