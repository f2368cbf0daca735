#include "io/source/chunks/decoding_memory.hpp"

#include <utility>

namespace shardstream::io {

DecodingMemory::Loan::Loan(DecodingMemory& memory) : memory_(memory) {
  {
    const std::lock_guard lock(memory_.mutex_);
    if (!memory_.rooms_.empty()) {
      room_ = std::move(memory_.rooms_.back());
      memory_.rooms_.pop_back();
    }
  }
  if (!room_) room_ = std::make_unique<DecodingRoom>();
}

DecodingMemory::Loan::~Loan() {
  const std::lock_guard lock(memory_.mutex_);
  memory_.rooms_.push_back(std::move(room_));
}

DecodingMemory::Bytes DecodingMemory::take(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    for (auto each = spare_.begin(); each != spare_.end(); ++each) {
      if (each->bytes != bytes || each->memory.use_count() > 1) continue;
      Bytes memory = std::move(each->memory);
      spare_.erase(each);
      return memory;
    }
  }
  return std::make_shared<AlignedBytes>(DirectFile::block(), DirectFile::room(bytes));
}

void DecodingMemory::release(Bytes memory, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (spare_.size() == max_spare) spare_.erase(spare_.begin());
  spare_.push_back({std::move(memory), bytes});
}

void DecodingMemory::end_use(Bytes memory) {
  const std::lock_guard lock(mutex_);
  memory.reset();
}

void DecodingMemory::add(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  used_ += bytes;
}

void DecodingMemory::remove(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  used_ -= bytes;
}

bool DecodingMemory::has_room(std::uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  return bytes <= max_bytes_ && used_ <= max_bytes_ - bytes;
}

}  // namespace shardstream::io
