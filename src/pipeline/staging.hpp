// The first ring: small pinned slots that reader threads fill and an upload stream empties. A slot
// is free again as soon as its own upload is done.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "device/buffer.hpp"
#include "device/device.hpp"

namespace shardstream::pipeline {

/// Brings numbered pieces, in order, from a reader function to the caller. The ring is allocated
/// once; start() may be called again after finish().
class Staging {
 public:
  /// Fills `slot` with piece number `piece`; called by the reader threads, several at once.
  using Read = std::function<void(std::uint64_t piece, std::byte* slot)>;

  Staging(device::Device& device, std::size_t slot_bytes, std::uint64_t slots, unsigned readers);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Starts the readers on pieces 0..pieces-1.
  void start(std::uint64_t pieces, Read read);
  /// Blocks until piece `piece`, the next in order, is in its slot. Throws what a reader threw.
  const std::byte* wait(std::uint64_t piece);
  /// The slot of `piece` may be filled again once the work that `stream` has been given is done.
  void release(std::uint64_t piece, device::Stream& stream);
  /// Waits for the readers; stops them first if they are not done. Throws nothing.
  void finish() noexcept;

 private:
  struct Slot {
    std::unique_ptr<device::Event> emptied;
    std::uint64_t filled = 0, released = 0;  // pieces so far; guarded by mutex_
  };

  void read_pieces();
  bool await_slot(std::uint64_t piece);
  std::byte* data(std::uint64_t piece) const;

  device::Buffer<std::byte> memory_;
  std::size_t slot_bytes_;
  std::vector<Slot> slots_;
  unsigned readers_;

  std::mutex mutex_;
  std::condition_variable filled_, released_;
  std::uint64_t pieces_ = 0, next_ = 0;
  std::exception_ptr error_;
  bool stop_ = false;
  Read read_;
  std::vector<std::thread> threads_;
};

}  // namespace shardstream::pipeline
