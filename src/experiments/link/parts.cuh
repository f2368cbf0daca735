// Data that passes through an upload, a kernel and a download in parts. Each stage of a part is one
// call, so that the experiment `overlap` chooses the order and the streams.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <algorithm>
#include <cstdint>
#include <vector>

#include "experiments/gpu.hpp"

namespace shardstream::experiments::link {

/// Adds `addend` to each number `steps` times if `factor` is 1: a chain of multiply-adds, whose
/// length sets the time of the kernel.
__global__ void add_steps(float* x, std::uint64_t count, float factor, float addend,
                          unsigned steps) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i >= count) return;
  float value = x[i];
  for (unsigned step = 0; step < steps; ++step) value = fmaf(value, factor, addend);
  x[i] = value;
}

/// `count` numbers, all 1 on the host at first. Part `part` of `parts` parts is processed at a
/// time.
class Parts {
 public:
  explicit Parts(std::uint64_t count) : count_(count), sent_(count), received_(count), x_(count) {
    std::fill_n(sent_.data(), count, 1.0F);
  }

  void upload(unsigned part, unsigned parts, cudaStream_t stream) const {
    const auto [first, size] = range_of(part, parts);
    check(cudaMemcpyAsync(x_.data() + first, sent_.data() + first, size * sizeof(float),
                          cudaMemcpyHostToDevice, stream),
          "cudaMemcpyAsync");
  }
  void compute(unsigned part, unsigned parts, unsigned steps, cudaStream_t stream) const {
    constexpr unsigned threads = 256;
    const auto [first, size] = range_of(part, parts);
    add_steps<<<blocks_for(size, threads), threads, 0, stream>>>(x_.data() + first, size, 1, 1,
                                                                 steps);
    check_launch("add_steps");
  }
  void download(unsigned part, unsigned parts, cudaStream_t stream) const {
    const auto [first, size] = range_of(part, parts);
    check(cudaMemcpyAsync(received_.data() + first, x_.data() + first, size * sizeof(float),
                          cudaMemcpyDeviceToHost, stream),
          "cudaMemcpyAsync");
  }

  /// Sets all numbers on the device, in the order of `stream`, and all received numbers to zero.
  void clear(cudaStream_t stream) const {
    x_.clear(stream);
    std::fill_n(received_.data(), count_, 0.0F);
  }
  /// Whether each number has become 1 + `steps` on the device and, if `downloaded`, on the host.
  /// Waits for the device.
  bool are_right(unsigned steps, bool downloaded) const {
    const auto is_wrong = [&](float value) { return value != 1 + static_cast<float>(steps); };
    const std::vector<float> x = x_.read();
    if (std::ranges::any_of(x, is_wrong)) return false;
    return !downloaded || std::none_of(received_.data(), received_.data() + count_, is_wrong);
  }

 private:
  struct Range {
    std::uint64_t first, size;
  };
  Range range_of(unsigned part, unsigned parts) const {
    const std::uint64_t first = count_ * part / parts;
    return {first, count_ * (part + 1) / parts - first};
  }

  std::uint64_t count_;
  PinnedArray<float> sent_, received_;
  DeviceArray<float> x_;
};

/// The number of steps for which the kernel takes `wanted` seconds.
inline unsigned steps_for(double wanted, const Parts& data, Gpu& gpu) {
  const auto seconds = [&](unsigned steps) {
    return gpu.time([&] { data.compute(0, 1, steps, gpu.stream()); }).seconds.value;
  };
  constexpr unsigned few = 64, many = 1024;
  const double start = seconds(few), step = (seconds(many) - start) / (many - few);
  return static_cast<unsigned>(std::clamp((wanted - start) / step + few, 1.0, 1e6));
}

}  // namespace shardstream::experiments::link
#endif  // SHARDSTREAM_HAS_CUDA
