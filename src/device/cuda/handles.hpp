// Owners of CUDA's handles and checks of its calls, for the CUDA backend and for experiments.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <source_location>
#include <string>
#include <utility>

#include "device/device.hpp"

namespace shardstream::device::cuda {

/// A GPU with the name that errors show.
struct Gpu {
  int ordinal;
  std::string name;  ///< "NVIDIA H100 80GB HBM3, 0000:1b:00.0"
};

/// Makes the GPU current in the calling thread. Errors of check() in this thread then show its
/// name, which a GPU that has failed could no longer report. Throws Error as check() does.
void use(const std::shared_ptr<const Gpu>& gpu);

/// Throws Error if `status` is a failure. The message has `call`, the GPU, CUDA's description and,
/// if known, the remedy. Clears CUDA's last error.
void check(cudaError_t status, const char* call,
           std::source_location where = std::source_location::current());

/// For destructors: writes a warning to standard error if `status` is a failure, and continues.
/// Silent if the same failure was reported last, since every call returns it after a GPU is lost.
void report(cudaError_t status, const char* call) noexcept;

/// A stream of the current device, with CUDA's least or greatest priority. `flags` are those of
/// cudaStreamCreateWithPriority.
class StreamHandle {
 public:
  explicit StreamHandle(Priority priority, unsigned flags = cudaStreamNonBlocking) {
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    check(cudaStreamCreateWithPriority(&stream_, flags,
                                       priority == Priority::urgent ? greatest : least),
          "cudaStreamCreateWithPriority");
  }
  StreamHandle(StreamHandle&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  StreamHandle& operator=(StreamHandle&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~StreamHandle() {
    if (stream_ != nullptr) report(cudaStreamDestroy(stream_), "cudaStreamDestroy");
  }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// An event of the current device. A thread that waits for it does not sleep, but yields its CPU to
/// other threads. To wake a sleeping thread, the GPU would send an interrupt after every record,
/// which delays the stream (src/pipeline/MEASUREMENTS.md).
class EventHandle {
 public:
  explicit EventHandle(bool timed) {
    check(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
  }
  EventHandle(EventHandle&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  EventHandle& operator=(EventHandle&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~EventHandle() {
    if (event_ != nullptr) report(cudaEventDestroy(event_), "cudaEventDestroy");
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace shardstream::device::cuda
