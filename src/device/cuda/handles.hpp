// Owners and checks for CUDA's handles. For the CUDA backend and for experiments; needs CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <source_location>
#include <string>
#include <utility>

#include "device/device.hpp"

namespace shardstream::device::cuda {

/// A GPU as errors name it.
struct Gpu {
  int ordinal;
  std::string name;  ///< "NVIDIA H100 80GB HBM3, 0000:1b:00.0"
};

/// Makes the GPU the calling thread's, and the one that check() names there: one that has failed
/// could not be asked any more. Throws Error as check() does.
void use(const std::shared_ptr<const Gpu>& gpu);

/// Throws Error naming `call`, the GPU, CUDA's word for the failure and, where there is one, the
/// remedy.
void check(cudaError_t status, const char* call,
           std::source_location where = std::source_location::current());

/// For destructors: says what failed on standard error and goes on. After a failure that every
/// later call returns again, as with a GPU that is lost, it is silent.
void report(cudaError_t status, const char* call) noexcept;

/// A non-blocking stream of the current device, with its least priority or its greatest.
class StreamHandle {
 public:
  explicit StreamHandle(Priority priority) {
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
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

/// An event of the current device. A thread that waits for it spins: one that slept would need an
/// interrupt for every record, which holds up the stream (src/pipeline/README.md).
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
