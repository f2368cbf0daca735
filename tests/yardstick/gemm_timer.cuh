// For gemm_parts: memory, random data, and the times of work on a stream.
#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/data/generate.hpp"
#include "kernels/gemm/multiply/multiply.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::gemm {

inline constexpr TileAt only_tile{0, 0};

inline void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string(call).append(": ").append(cudaGetErrorString(status)));
}
inline void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(call).append(": ").append(cublasLtGetStatusString(status)));
}
#define CHECK(call) check(call, #call)

struct FreeDevice {
  void operator()(void* data) const { (void)cudaFree(data); }
};
template <class T>
using OnDevice = std::unique_ptr<T, FreeDevice>;
template <class T = std::byte>
OnDevice<T> on_device(std::uint64_t count) {
  void* data = nullptr;
  CHECK(cudaMalloc(&data, count * sizeof(T)));
  return OnDevice<T>(static_cast<T*>(data));
}

struct FreePinned {
  void operator()(void* data) const { (void)cudaFreeHost(data); }
};
template <class T>
using Pinned = std::unique_ptr<T, FreePinned>;
template <class T>
Pinned<T> pinned(std::uint64_t count) {
  void* data = nullptr;
  CHECK(cudaHostAlloc(&data, count * sizeof(T), cudaHostAllocPortable));
  return Pinned<T>(static_cast<T*>(data));
}

template <class T>
__global__ void fill_elements(T* x, std::uint64_t count, std::uint64_t seed) {
  for (std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::uint64_t{gridDim.x} * blockDim.x) {
    const std::uint64_t h = mix(stream_of(seed) + i * 0x9e3779b97f4a7c15u);
    if constexpr (sizeof(T) == 8) {
      x[i] = static_cast<double>(h >> 11) * 0x1p-53;
    } else if constexpr (sizeof(T) == 4) {
      x[i] = static_cast<float>(h >> 40) * 0x1p-24f;
    } else {
      x[i] = static_cast<std::int8_t>(h >> 56);
    }
  }
}
/// Fills device memory, or pinned memory.
template <class T>
void fill(T* x, std::uint64_t count, std::uint64_t seed) {
  fill_elements<<<2048, 256>>>(x, count, seed);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

inline double teraflops(std::uint64_t m, std::uint64_t n, std::uint64_t k, double ms) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / ms / 1e9;
}

class Timer {
 public:
  Timer() {
    CHECK(cudaStreamCreate(&stream_));
    CHECK(cudaEventCreate(&start_));
    CHECK(cudaEventCreate(&end_));
  }
  ~Timer() {
    (void)cudaEventDestroy(end_);
    (void)cudaEventDestroy(start_);
    (void)cudaStreamDestroy(stream_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  cudaStream_t stream() const { return stream_; }

  template <class Args>
  void launch(const Kernel<Args>& kernel, const std::type_identity_t<Args>& args) const {
    kernel.cuda(args, stream_);
    check(cudaGetLastError(), kernel.name);
  }

  /// Median milliseconds, by events, of at least three runs that take at least `min` of them,
  /// after as long a time of warming up. What is short is done several times a run.
  double milliseconds(const std::function<void()>& work, double min = 300) const {
    run(work, 1);  // loads the code
    const double once = run(work, 1);
    const int repeats = static_cast<int>(std::clamp(std::ceil(5 / once), 1.0, 1000.0));
    const auto runs = static_cast<std::size_t>(std::max(3.0, std::ceil(min / (once * repeats))));
    std::vector<double> times;
    double total = 0;
    for (double warm = once; warm < min;) warm += run(work, repeats) * repeats;
    while (times.size() < runs || total < min) {
      times.push_back(run(work, repeats));
      total += times.back() * repeats;
    }
    return median(times);
  }

 private:
  double run(const std::function<void()>& work, int repeats) const {
    CHECK(cudaEventRecord(start_, stream_));
    for (int i = 0; i < repeats; ++i) work();
    CHECK(cudaEventRecord(end_, stream_));
    CHECK(cudaEventSynchronize(end_));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, start_, end_));
    return ms / repeats;
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, end_ = nullptr;
};

}  // namespace shardstream::gemm
