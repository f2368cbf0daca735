// The kinds of host memory that copies can use, and test data that shows whether a copy is right.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cstddef>
#include <cstdint>
#include <memory>

#include "experiments/gpu.hpp"

namespace shardstream::experiments::link {

enum class HostKind {
  pageable,         ///< from the C library; the driver copies it through its own pinned buffer
  pinned,           ///< cudaHostAlloc
  write_combined,   ///< cudaHostAlloc; the processor's caches do not hold it
  registered,       ///< pages of 4 KiB, pinned by cudaHostRegister
  registered_huge,  ///< the same, in huge pages if the system has them
};
const char* word_of(HostKind kind);

/// Host memory whose pages are resident. The destructor frees it.
class HostMemory {
 public:
  /// Throws Error if there is not enough memory.
  HostMemory(HostKind kind, std::uint64_t bytes);
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory();

  template <class T = std::byte>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  HostKind kind_;
  std::uint64_t bytes_;
  void* data_ = nullptr;
};

/// Writes unit_number(salt), unit_number(salt + 1), ...
void write_numbers(float* to, std::uint64_t count, std::uint64_t salt);
/// The same on the device, in the order of `stream`.
void write_numbers_on_device(float* to, std::uint64_t count, std::uint64_t salt,
                             cudaStream_t stream);

/// Whether about a thousand of the numbers, including the first and last one, are as written.
bool has_numbers(const float* from, std::uint64_t count, std::uint64_t salt);
/// Whether all numbers on the device are as written. Waits for the device.
bool device_has_numbers(const float* from, std::uint64_t count, std::uint64_t salt);

}  // namespace shardstream::experiments::link
#endif  // SHARDSTREAM_HAS_CUDA
