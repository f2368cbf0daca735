// An owner of memory of a device.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "device/device.hpp"

namespace shardstream::device {

/// `count` uninitialised values of T in memory of any kind. Move-only. The device must outlive it,
/// and no stream may use the memory any more when it is destroyed. Throws Error if there is not
/// enough memory.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  Buffer(Device& device, Memory kind, std::size_t count)
      : device_(&device), kind_(kind), count_(count) {
    if (count > 0) data_ = static_cast<T*>(device.allocate(kind, count * sizeof(T)));
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) device_->release(kind_, data_, bytes());
  }

  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  T& operator[](std::size_t i) const { return data_[i]; }  ///< only for host memory

 private:
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(kind_, other.kind_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
  }

  Device* device_ = nullptr;
  Memory kind_ = Memory::device;
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace shardstream::device
