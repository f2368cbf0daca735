// Host memory of each kind that copies know, and numbers that show whether a copy is right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "experiments/gpu.hpp"

namespace shardstream::experiments::link {

enum class HostKind {
  pageable,         ///< from the C library: the driver copies it through a pinned buffer of its own
  pinned,           ///< cudaHostAlloc
  write_combined,   ///< cudaHostAlloc, past the processor's caches
  registered,       ///< pages of 4 KiB, pinned by cudaHostRegister
  registered_huge,  ///< the same, in huge pages if the system gives them
};
const char* word_of(HostKind kind);

/// Host memory, freed at the end. Its pages are touched.
class HostMemory {
 public:
  /// Throws Error if there is not enough.
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
/// The same on the device. Does not wait.
void lay_numbers(float* to, std::uint64_t count, std::uint64_t salt, cudaStream_t stream);

/// Whether some thousand of the numbers, the first and the last among them, are those.
bool has_numbers(const float* from, std::uint64_t count, std::uint64_t salt);
/// Whether all numbers on the device are those. Waits for the device.
bool device_has_numbers(const float* from, std::uint64_t count, std::uint64_t salt);

}  // namespace shardstream::experiments::link
