// Pinned memory where pages of the host cannot be registered: the memory of the CUDA runtime serves
// the same uploads.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "device/buffer.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/device.hpp"

namespace shardstream::device {
namespace {

TEST(PinnedMemory, OfTheRuntimeServesUploads) {
  const auto device = cuda::make_device(0, 1, cuda::Pinning::by_runtime);
  const auto stream = device->make_stream();
  std::vector<int> numbers(1 << 16);
  std::iota(numbers.begin(), numbers.end(), 7);
  for (const Memory kind : {Memory::pinned, Memory::mapped, Memory::pageable}) {
    Buffer<int> host(*device, kind, numbers.size()), back(*device, kind, numbers.size());
    Buffer<int> there(*device, Memory::device, numbers.size());
    std::ranges::copy(numbers, host.data());
    stream->upload(there.data(), host.data(), host.bytes());
    stream->download(back.data(), there.data(), back.bytes());
    stream->synchronize();
    EXPECT_TRUE(std::ranges::equal(numbers, std::span(back.data(), numbers.size())));
  }
}

}  // namespace
}  // namespace shardstream::device
