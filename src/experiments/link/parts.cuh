// Data that passes through an upload, a kernel and a download in parts. Each stage of a part is one
// call, so that `overlap` and `zero-copy` choose the order and the streams. The kernel can also use
// the memory of the host in place.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <algorithm>
#include <cstdint>

#include "experiments/count_wrong.cuh"
#include "experiments/gpu.hpp"
#include "experiments/link/host_memory.hpp"

namespace shardstream::experiments::link {

/// The number at index `i` before the kernel. Small whole numbers, so that sums are exact.
__host__ __device__ constexpr float start_number(std::uint64_t i) {
  return static_cast<float>(i % 1024);
}

/// Adds `addend` to each number `steps` times if `factor` is 1: a chain of multiply-adds, whose
/// length sets the time of the kernel.
static __global__ void add_steps(const float* from, float* to, std::uint64_t count, float factor,
                                 float addend, unsigned steps) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i >= count) return;
  float value = from[i];
  for (unsigned step = 0; step < steps; ++step) value = fmaf(value, factor, addend);
  to[i] = value;
}

/// Expects numbers that are `steps` more than at first.
struct IsWrongSum {
  const float* x;
  unsigned steps;

  __device__ bool operator()(std::uint64_t i) const {
    return x[i] != start_number(i) + static_cast<float>(steps);
  }
};

enum class Side { on_device, on_host };

/// The memory that a kernel reads and the memory that it writes. It uses memory of the host over
/// the link; that memory must be pinned.
struct Sides {
  Side reads = Side::on_device, writes = Side::on_device;
};

/// `count` numbers on the host and on the device, and as many results. Part `part` of `parts`
/// parts is processed at a time. Calls are enqueued, except copies of pageable memory.
class Parts {
 public:
  static constexpr unsigned threads = 256;  // of a block

  struct Range {
    std::uint64_t first, size;
  };

  /// `kind` is that of the host's memory. Pinned memory is also mapped: the device can use its
  /// addresses.
  explicit Parts(std::uint64_t count, HostKind kind = HostKind::pinned)
      : count_(count),
        sent_(kind, count * sizeof(float)),
        received_(kind, count * sizeof(float)),
        x_(count),
        y_(count) {
    for (std::uint64_t i = 0; i < count; ++i) sent_.as<float>()[i] = start_number(i);
    clear();
  }

  Range range_of(unsigned part, unsigned parts) const {
    const std::uint64_t first = count_ * part / parts;
    return {first, count_ * (part + 1) / parts - first};
  }
  std::uint64_t bytes() const { return count_ * sizeof(float); }
  const float* input(Side side) const {
    return side == Side::on_host ? sent_.as<float>() : x_.data();
  }
  float* output(Side side) const {
    return side == Side::on_host ? received_.as<float>() : y_.data();
  }

  void upload(unsigned part, unsigned parts, cudaStream_t stream) const {
    const auto [first, size] = range_of(part, parts);
    check(cudaMemcpyAsync(x_.data() + first, sent_.as<float>() + first, size * sizeof(float),
                          cudaMemcpyHostToDevice, stream),
          "cudaMemcpyAsync");
  }
  /// Adds `steps` to the numbers.
  void compute(unsigned part, unsigned parts, unsigned steps, cudaStream_t stream,
               Sides sides = {}) const {
    const auto [first, size] = range_of(part, parts);
    add_steps<<<blocks_for(size, threads), threads, 0, stream>>>(
        input(sides.reads) + first, output(sides.writes) + first, size, 1, 1, steps);
    check_launch("add_steps");
  }
  void download(unsigned part, unsigned parts, cudaStream_t stream) const {
    const auto [first, size] = range_of(part, parts);
    check(cudaMemcpyAsync(received_.as<float>() + first, y_.data() + first, size * sizeof(float),
                          cudaMemcpyDeviceToHost, stream),
          "cudaMemcpyAsync");
  }

  /// Sets all numbers on the device and all results to zero. Waits for the device.
  void clear() const {
    x_.clear(nullptr);
    y_.clear(nullptr);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::fill_n(received_.as<float>(), count_, 0.0F);
  }
  /// Whether all results on one side are right after `steps` steps. Waits for the device.
  bool are_right(unsigned steps, Side side) const {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (side == Side::on_device) return is_right_on_device(y_.data(), count_, steps);
    const float* const results = output(side);
    for (std::uint64_t i = 0; i < count_; ++i) {
      if (results[i] != start_number(i) + static_cast<float>(steps)) return false;
    }
    return true;
  }

  /// Whether `count` numbers on the device are `steps` more than at first. Waits for the device.
  static bool is_right_on_device(const float* x, std::uint64_t count, unsigned steps) {
    return count_wrong(count, IsWrongSum{x, steps}, nullptr) == 0;
  }

 private:
  std::uint64_t count_;
  HostMemory sent_, received_;
  DeviceArray<float> x_, y_;
};

/// The number of steps for which the kernel on one of `parts` parts in device memory takes `wanted`
/// seconds.
inline unsigned steps_for(double wanted, const Parts& data, Gpu& gpu, unsigned parts = 1) {
  const auto seconds = [&](unsigned steps) {
    return gpu.time([&] { data.compute(0, parts, steps, gpu.stream()); }).seconds.value;
  };
  constexpr unsigned few = 64, many = 1024;
  const double start = seconds(few);
  const double step = std::max(1e-12, (seconds(many) - start) / (many - few));
  return static_cast<unsigned>(std::clamp((wanted - start) / step + few, 1.0, 1e6));
}

}  // namespace shardstream::experiments::link
#endif  // SHARDSTREAM_HAS_CUDA
