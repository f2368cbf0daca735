// The first ring: small pinned slots that reader threads fill and an upload stream empties. A slot
// is free again as soon as its own upload is done.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "device/buffer.hpp"
#include "device/device.hpp"
#include "measure/recorder.hpp"

namespace shardstream::pipeline {

/// Brings numbered pieces, in order, from a reader function to the caller. The ring is allocated
/// once; start() may be called again after finish().
class Staging {
 public:
  /// Fills `slot` with piece number `piece` and returns where in the slot the data begin; called by
  /// the reader threads, several at once, each with its own track.
  using Read = std::function<const std::byte*(std::uint64_t piece, std::byte* slot,
                                              measure::HostTrack& reader)>;

  /// The readers' tracks are "reader 0", "reader 1", ...
  Staging(device::Device& device, measure::Recorder& recorder, std::size_t slot_bytes,
          std::uint64_t slots, unsigned readers);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Starts the readers on pieces 0..pieces-1.
  void start(std::uint64_t pieces, Read read);
  /// Blocks until piece `piece`, the next in order, is in its slot; returns where its data begin.
  /// Throws what a reader threw.
  const std::byte* wait(std::uint64_t piece);
  /// The slot of `piece` may be filled again once the work that `stream` has been given is done.
  void release(std::uint64_t piece, device::Stream& stream);
  /// Waits for the readers; stops them first if they are not done. Throws nothing.
  void finish() noexcept;

 private:
  /// How often the slot has been filled and released; a thread waits for one slot alone, without a
  /// lock that all would share. `ended` in both wakes whoever waits: there will be no more.
  struct Slot {
    std::unique_ptr<device::Event> emptied;
    const std::byte* start = nullptr;  // of the data; the reader sets it before `filled`
    std::atomic<std::uint64_t> filled = 0, released = 0;
  };
  static constexpr std::uint64_t ended = std::numeric_limits<std::uint64_t>::max();

  void read_pieces(measure::HostTrack& track);
  bool await_slot(std::uint64_t piece, measure::HostTrack& track);
  void end();
  std::uint64_t round(std::uint64_t piece) const { return piece / slots_.size(); }
  Slot& slot(std::uint64_t piece) { return slots_[piece % slots_.size()]; }
  std::byte* memory(std::uint64_t piece) const;

  device::Buffer<std::byte> memory_;
  std::size_t slot_bytes_;
  std::vector<Slot> slots_;
  std::vector<measure::HostTrack*> readers_;

  std::uint64_t pieces_ = 0;
  Read read_;
  std::atomic<std::uint64_t> next_ = 0;
  std::mutex error_mutex_;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace shardstream::pipeline
