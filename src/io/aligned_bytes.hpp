// Memory for reads that want it aligned.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace shardstream::io {

/// `bytes` bytes, a multiple of `alignment`, aligned to it; not initialised.
class AlignedBytes {
 public:
  AlignedBytes(std::size_t alignment, std::size_t bytes)
      : data_(static_cast<std::byte*>(std::aligned_alloc(alignment, bytes))) {
    if (!data_) throw std::bad_alloc();
  }
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace shardstream::io
