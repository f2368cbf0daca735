// The tools of experiments on a GPU: memory, a stream whose work is timed, and guards that restore
// the state of the device. Every CUDA error becomes an Error. This header and those that include it
// are empty in a build without CUDA, so that an experiment includes them unconditionally.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "device/cuda/handles.hpp"
#include "experiments/bench.hpp"
#include "experiments/numbers.hpp"
#include "experiments/warp_size.hpp"

namespace shardstream::experiments {

using device::cuda::check;

/// Throws Error if the last kernel launch failed.
inline void check_launch(const char* kernel) {
  check(cudaGetLastError(), kernel);
}

/// Number of blocks of `threads` threads that cover `count` elements, one per thread.
constexpr unsigned blocks_for(std::uint64_t count, unsigned threads) {
  return static_cast<unsigned>((count + threads - 1) / threads);
}

/// Memory of the current device. The destructor frees it.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::uint64_t count) : count_(count) {
    check(cudaMalloc(&data_, count * sizeof(T)), "cudaMalloc");
  }
  explicit DeviceArray(std::span<const T> values) : DeviceArray(values.size()) {
    check(cudaMemcpy(data_, values.data(), values.size_bytes(), cudaMemcpyHostToDevice),
          "cudaMemcpy");
    // The copy may return before it ends, and non-blocking streams do not wait for it.
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(other.count_) {}
  DeviceArray& operator=(DeviceArray&&) = delete;
  ~DeviceArray() {
    if (data_ != nullptr) device::cuda::report(cudaFree(data_), "cudaFree");
  }

  T* data() const { return data_; }
  std::uint64_t size() const { return count_; }
  std::uint64_t bytes() const { return count_ * sizeof(T); }

  /// Sets all bytes to zero, in the order of `stream`.
  void clear(cudaStream_t stream) const {
    check(cudaMemsetAsync(data_, 0, bytes(), stream), "cudaMemsetAsync");
  }
  /// Copies `count` elements from `first` on to the host. Waits for all work of the device.
  std::vector<T> read(std::uint64_t first, std::uint64_t count) const {
    std::vector<T> values(count);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(cudaMemcpy(values.data(), data_ + first, count * sizeof(T), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    return values;
  }
  std::vector<T> read() const { return read(0, count_); }

 private:
  T* data_ = nullptr;
  std::uint64_t count_;
};

/// Pinned host memory. `flags` are those of cudaHostAlloc. The destructor frees it.
template <class T>
class PinnedArray {
 public:
  explicit PinnedArray(std::uint64_t count, unsigned flags = cudaHostAllocDefault) : count_(count) {
    check(cudaHostAlloc(&data_, count * sizeof(T), flags), "cudaHostAlloc");
  }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;
  ~PinnedArray() { device::cuda::report(cudaFreeHost(data_), "cudaFreeHost"); }

  T* data() const { return data_; }
  std::uint64_t size() const { return count_; }
  T& operator[](std::uint64_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  std::uint64_t count_;
};

/// A kernel that blocks a stream until the host has enqueued more work. It gives up after a limit:
/// otherwise a host that waits for the stream meanwhile would wait for ever.
class Gate {
 public:
  /// `limit` is in seconds.
  explicit Gate(double limit);
  /// 10 seconds, or 1 if the driver stops long kernels of the current GPU, as with a display.
  static double usual_limit();

  void close(cudaStream_t stream);
  void open();
  double limit() const { return limit_; }
  /// Whether the stream was blocked for `limit`, so that work behind the gate may have begun before
  /// open(). Call it after that work has ended.
  bool has_given_up() const;

 private:
  double limit_;
  unsigned closed_ = 0;            ///< how often the gate was closed
  PinnedArray<unsigned> opened_;   ///< the number of the closing that ended last
  PinnedArray<unsigned> gave_up_;  ///< the number of the last closing that reached the limit
};

/// Closes a gate. The destructor opens it.
class ClosedGateGuard {
 public:
  ClosedGateGuard(Gate& gate, cudaStream_t stream) : gate_(gate) { gate_.close(stream); }
  ClosedGateGuard(const ClosedGateGuard&) = delete;
  ClosedGateGuard& operator=(const ClosedGateGuard&) = delete;
  ~ClosedGateGuard() { gate_.open(); }

 private:
  Gate& gate_;
};

/// A stream on the GPU of this rank, and a timer for its work.
class Gpu {
 public:
  /// `gate_limit`: seconds for which the stream may be blocked while a sample is enqueued.
  explicit Gpu(Bench& bench, double gate_limit = Gate::usual_limit());
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  cudaStream_t stream() const { return stream_.get(); }
  const cudaDeviceProp& properties() const { return properties_; }

  /// Measures the work that `enqueue` adds to stream(), by events. `enqueue` must not wait for the
  /// device: the stream is blocked until all work of a sample is enqueued, so that the launch
  /// overhead is not measured. Work shorter than 200 us is enqueued several times per sample.
  /// Throws Error if a sample is not enqueued within the limit of the gate.
  Timing time(const std::function<void()>& enqueue);

  /// The same for work that needs a preparation, which is not timed: before each sample, calls
  /// `prepare`, which may wait for the device, waits for stream(), and enqueues the work once.
  Timing time_after(const std::function<void()>& prepare, const std::function<void()>& enqueue);

  /// Measures `call` by the host's clock, from its start to the end of its work on stream(). For
  /// calls that wait for the device.
  Timing time_call(const std::function<void()>& call);

  void synchronize() { check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize"); }

 private:
  double seconds_of(const std::function<void()>& enqueue, unsigned calls);

  Bench& bench_;
  cudaDeviceProp properties_{};
  device::cuda::StreamHandle stream_;
  device::cuda::EventHandle begin_, end_;
  Gate gate_;
};

/// Streams that run beside a main stream. `flags` are those of cudaStreamCreateWithPriority. Not
/// thread-safe.
class SideStreams {
 public:
  explicit SideStreams(unsigned count, unsigned flags = cudaStreamNonBlocking);

  cudaStream_t operator[](unsigned i) const { return streams_[i].get(); }
  /// Work that is added to the side streams later waits for the work already in `main`.
  void fork(cudaStream_t main) const;
  /// Work that is added to `main` later waits for the work already in the side streams.
  void join(cudaStream_t main) const;

 private:
  std::vector<device::cuda::StreamHandle> streams_;
  device::cuda::EventHandle forked_;
  std::vector<device::cuda::EventHandle> ended_;
};

/// Makes another GPU the current device. The destructor restores the previous one.
class CurrentGpuGuard {
 public:
  explicit CurrentGpuGuard(int ordinal) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    check(cudaSetDevice(ordinal), "cudaSetDevice");
  }
  CurrentGpuGuard(const CurrentGpuGuard&) = delete;
  CurrentGpuGuard& operator=(const CurrentGpuGuard&) = delete;
  ~CurrentGpuGuard() { device::cuda::report(cudaSetDevice(before_), "cudaSetDevice"); }

 private:
  int before_ = 0;
};

/// Lets the current GPU access the memory of `other`. The destructor restores the previous state.
class PeerAccessGuard {
 public:
  /// Throws NotAvailable if the two GPUs cannot access each other.
  explicit PeerAccessGuard(int other);
  PeerAccessGuard(const PeerAccessGuard&) = delete;
  PeerAccessGuard& operator=(const PeerAccessGuard&) = delete;
  ~PeerAccessGuard();

 private:
  int own_, other_;
  bool was_enabled_ = false;
};

/// Sets a limit of the device (cudaDeviceSetLimit). The destructor restores the previous value.
class LimitGuard {
 public:
  LimitGuard(cudaLimit limit, std::size_t value) : limit_(limit) {
    check(cudaDeviceGetLimit(&before_, limit), "cudaDeviceGetLimit");
    check(cudaDeviceSetLimit(limit, value), "cudaDeviceSetLimit");
  }
  LimitGuard(const LimitGuard&) = delete;
  LimitGuard& operator=(const LimitGuard&) = delete;
  ~LimitGuard() { device::cuda::report(cudaDeviceSetLimit(limit_, before_), "cudaDeviceSetLimit"); }

 private:
  cudaLimit limit_;
  std::size_t before_ = 0;
};

/// Sets the percentage of shared memory that a kernel prefers in all later launches
/// (cudaFuncAttributePreferredSharedMemoryCarveout). The destructor restores the previous value.
class CarveoutGuard {
 public:
  CarveoutGuard(const void* kernel, int percent) : kernel_(kernel) {
    check(cudaFuncGetAttributes(&before_, kernel), "cudaFuncGetAttributes");
    check(set(percent), "cudaFuncSetAttribute");
  }
  CarveoutGuard(const CarveoutGuard&) = delete;
  CarveoutGuard& operator=(const CarveoutGuard&) = delete;
  ~CarveoutGuard() {
    device::cuda::report(set(before_.preferredShmemCarveout), "cudaFuncSetAttribute");
  }

 private:
  cudaError_t set(int percent) const {
    return cudaFuncSetAttribute(kernel_, cudaFuncAttributePreferredSharedMemoryCarveout, percent);
  }
  const void* kernel_;
  cudaFuncAttributes before_{};
};

/// The access policy window of a stream that has none.
constexpr cudaAccessPolicyWindow no_window() {
  return {nullptr, 0, 0, cudaAccessPropertyNormal, cudaAccessPropertyNormal};
}

/// Sets an access policy window on `stream`, so that lines of that memory stay in the L2 cache. The
/// destructor removes the window and resets all persisting lines.
class WindowGuard {
 public:
  WindowGuard(cudaStream_t stream, const cudaAccessPolicyWindow& window) : stream_(stream) {
    replace(window);
  }
  WindowGuard(const WindowGuard&) = delete;
  WindowGuard& operator=(const WindowGuard&) = delete;
  ~WindowGuard();

  /// Sets another window for kernels that are launched from now on. Persisting lines stay.
  void replace(const cudaAccessPolicyWindow& window) const;

 private:
  cudaStream_t stream_;
};

/// Fills `array` with unit_number(0), unit_number(1), ... Waits for the stream.
void fill(const DeviceArray<float>& array, cudaStream_t stream);

}  // namespace shardstream::experiments
#endif  // SHARDSTREAM_HAS_CUDA
