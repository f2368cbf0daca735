// The backend that a contract test runs on. Each test program links one definition: the host's
// (host_backend.cpp) or CUDA's (tests/gpu/cuda_backend.cpp); the tests are the same.
#pragma once

#include <memory>
#include <vector>

#include "device/buffer.hpp"
#include "device/device.hpp"

namespace shardstream::test {

std::unique_ptr<device::Device> make_backend();

/// A device buffer to which the values have been uploaded.
template <class T>
device::Buffer<T> on_device(device::Device& device, device::Stream& stream,
                            const std::vector<T>& values) {
  device::Buffer<T> buffer(device, device::Memory::device, values.size());
  stream.upload(buffer.data(), values.data(), buffer.bytes());
  stream.synchronize();
  return buffer;
}

/// The values of a device buffer after all work of the stream.
template <class T>
std::vector<T> from_device(device::Stream& stream, const device::Buffer<T>& buffer) {
  std::vector<T> values(buffer.size());
  stream.download(values.data(), buffer.data(), buffer.bytes());
  stream.synchronize();
  return values;
}

}  // namespace shardstream::test
