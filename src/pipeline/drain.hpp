// The way back, UploadRing's mirror: device memory -> download stream -> pinned slots -> writers.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "device/buffer.hpp"
#include "device/device.hpp"
#include "launch/heartbeat.hpp"
#include "measure/recorder.hpp"

namespace shardstream::pipeline {

/// Allocates its slots once; push() and finish() may be repeated, by the recorder's main thread.
/// The device, the recorder and the heartbeat must outlive it. It writes to the tracks "download",
/// "writer 0", "writer 1", ...: one drain of a recorder is at work at a time.
class Drain {
 public:
  /// Gets the bytes of one push(), in a slot; called by writers, several at once, in any order.
  using Write = std::function<void(const std::byte* data)>;

  /// There are at least as many slots as writers.
  Drain(device::Device& device, measure::Recorder& recorder, std::size_t slot_bytes,
        std::uint64_t slots, unsigned writers, launch::Heartbeat* heartbeat = nullptr);
  /// Waits for its stream and its writers; what they have not begun to write is lost.
  ~Drain();
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

  /// Downloads `bytes` (at most a slot's) at `data` after what `after` means now, then has a writer
  /// call `write`. `copied` is recorded behind the download: work that waits for it may use the
  /// device memory again. Blocks while the slot whose turn it is still has to be written.
  ///
  /// push() and finish() throw what a writer has thrown, once: no writer is at work then, and what
  /// else was pushed is lost. What `write` refers to must live until finish() has returned or
  /// thrown, or the drain is gone.
  void push(const device::Event& after, const std::byte* data, std::size_t bytes,
            device::Event& copied, Write write);

  /// Until all is written. An error of the device is seen where a stream is synchronised, as
  /// everywhere: what was written counts only if the caller's streams then have none.
  void finish();

 private:
  struct Slot {
    std::unique_ptr<device::Event> downloaded;
    std::size_t bytes = 0;
    Write write;
    bool busy = false;  ///< from its download to the end of its writing
  };
  /// Push `number` takes the slots in turn.
  std::uint64_t slot_of(std::uint64_t number) const { return number % slots_.size(); }
  std::byte* memory(std::uint64_t number) const {
    return memory_.data() + slot_of(number) * slot_bytes_;
  }

  void start_writers();
  void end_writers() noexcept;
  void await(std::uint64_t number, const std::function<bool()>& done);
  void write_slots(measure::HostTrack& track);
  void write_slot(std::uint64_t number, measure::HostTrack& track);

  device::Buffer<std::byte> memory_;
  std::size_t slot_bytes_;
  launch::Heartbeat* heartbeat_;
  std::unique_ptr<device::Stream> download_;
  measure::HostTrack& main_track_;
  measure::DeviceTrack& download_track_;
  std::vector<measure::HostTrack*> tracks_;

  // The lock guards what follows and the slots but for their events.
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Slot> slots_;
  std::uint64_t pushed_ = 0, taken_ = 0, written_ = 0;  ///< since the writers were started
  std::exception_ptr error_;
  std::stop_source stop_;  ///< requested when a writer has thrown, and to end the writers
  std::vector<std::thread> threads_;
};

}  // namespace shardstream::pipeline
