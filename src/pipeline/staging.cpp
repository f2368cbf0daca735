#include "pipeline/staging.hpp"

namespace shardstream::pipeline {

Staging::Staging(device::Device& device, std::size_t slot_bytes, std::uint64_t slots,
                 unsigned readers)
    : memory_(device, device::Memory::pinned, slot_bytes * slots),
      slot_bytes_(slot_bytes),
      slots_(slots),
      readers_(readers) {
  for (auto& slot : slots_) slot.emptied = device.make_event();
}

Staging::~Staging() {
  finish();
}

void Staging::start(std::uint64_t pieces, Read read) {
  finish();
  pieces_ = pieces;
  next_ = 0;
  error_ = nullptr;
  stop_ = false;
  read_ = std::move(read);
  for (auto& slot : slots_) slot.filled = slot.released = 0;
  for (unsigned i = 0; i < readers_; ++i) threads_.emplace_back([this] { read_pieces(); });
}

const std::byte* Staging::wait(std::uint64_t piece) {
  const Slot& slot = slots_[piece % slots_.size()];
  const std::uint64_t round = piece / slots_.size();
  std::unique_lock lock(mutex_);
  filled_.wait(lock, [&] { return slot.filled > round || error_; });
  if (error_) std::rethrow_exception(error_);
  return data(piece);
}

void Staging::release(std::uint64_t piece, device::Stream& stream) {
  Slot& slot = slots_[piece % slots_.size()];
  stream.record(*slot.emptied);
  std::lock_guard lock(mutex_);
  ++slot.released;
  released_.notify_all();
}

void Staging::finish() noexcept {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  released_.notify_all();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

void Staging::read_pieces() {
  try {
    while (true) {
      std::uint64_t piece = 0;
      {
        std::lock_guard lock(mutex_);
        if (stop_ || error_ || next_ == pieces_) return;
        piece = next_++;
      }
      if (!await_slot(piece)) return;
      read_(piece, data(piece));
      std::lock_guard lock(mutex_);
      ++slots_[piece % slots_.size()].filled;
      filled_.notify_one();
    }
  } catch (...) {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
    filled_.notify_one();
    released_.notify_all();
  }
}

/// Blocks until the slot's former piece has been uploaded; false if the readers are to stop.
bool Staging::await_slot(std::uint64_t piece) {
  Slot& slot = slots_[piece % slots_.size()];
  {
    std::unique_lock lock(mutex_);
    released_.wait(lock, [&] { return slot.released == piece / slots_.size() || stop_ || error_; });
    if (stop_ || error_) return false;
  }
  slot.emptied->synchronize();
  return true;
}

std::byte* Staging::data(std::uint64_t piece) const {
  return memory_.data() + piece % slots_.size() * slot_bytes_;
}

}  // namespace shardstream::pipeline
