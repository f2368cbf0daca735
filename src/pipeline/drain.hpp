// The way back, UploadRing's mirror: device memory -> download stream -> pinned slots -> writers.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <vector>

#include "core/shard.hpp"
#include "device/buffer.hpp"
#include "device/device.hpp"
#include "launch/heartbeat.hpp"
#include "measure/track.hpp"
#include "pipeline/crew.hpp"

namespace shardstream::pipeline {

/// Allocates its slots once. push(), wait() and finish() may be repeated, by the recorder's main
/// thread. The device, the recorder and the heartbeat must outlive it. It writes to the tracks
/// "download", "writer 0", "writer 1", ...: one drain of a recorder is at work at a time.
class Drain {
 public:
  /// Gets some rows of one push(), counted from its first one, dense in a slot; called by writers,
  /// several at once also for one push(), in any order.
  using Write = std::function<void(Range rows, const std::byte* data)>;

  /// There are at least as many slots as writers.
  Drain(device::Device& device, measure::Recorder& recorder, std::size_t slot_bytes,
        std::uint64_t slots, unsigned writers, launch::Heartbeat* heartbeat = nullptr);
  /// Waits for its stream and its writers; what they have not begun to write is lost.
  ~Drain();
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

  /// Has `rows` > 0 dense rows of `row_bytes` > 0 (at most a slot's) at `data` downloaded behind
  /// `after`, as many rows at a time as a slot holds, and `write` called until it has had them all.
  /// What is pushed first is downloaded first. Waits for nothing: the queue has no end. Returns the
  /// push's number for wait(): 1, 2, 3, ... over the drain's life.
  ///
  /// Until wait() for it or finish() has returned, nothing may be enqueued that overwrites `data`,
  /// and `after`, recorded already, must neither go nor be recorded anew. What `write` refers to
  /// must live until finish() has returned or thrown, or the drain is gone.
  ///
  /// push(), wait() and finish() throw what a writer has thrown, once: no writer is at work then,
  /// and what else was pushed is lost.
  std::uint64_t push(const device::Event& after, const std::byte* data, std::uint64_t rows,
                     std::size_t row_bytes, Write write);

  /// Work that `stream` is given from now on comes after the download of push `number`, and may use
  /// its device memory again. Blocks while that download has no slot yet and can't be enqueued.
  /// Number 0 is no push: nothing happens.
  void wait(device::Stream& stream, std::uint64_t number);

  /// Until all is written. An error of the device is seen where a stream is synchronised, as
  /// everywhere: what was written counts only if the caller's streams then have none. Calls
  /// `meanwhile`, if there is one, some times a second.
  void finish(const std::function<void()>& meanwhile = nullptr);

 private:
  struct Slot {
    std::byte* memory = nullptr;
    std::unique_ptr<device::Event> downloaded;
    // What it holds from its download to the end of its writing.
    std::uint64_t number = 0;  ///< of the push
    Range rows{};
  };
  struct Push {
    const device::Event* after;
    const std::byte* data;
    std::uint64_t rows;
    std::size_t row_bytes;
    Write write;
    std::uint64_t enqueued = 0, written = 0;  ///< rows
    const Slot* last = nullptr;               ///< that its latest rows were downloaded to
  };
  /// One of those that are not all written.
  Push& pushed(std::uint64_t number) { return pushes_[number - first_]; }
  /// The latest push, of all.
  std::uint64_t last() const { return first_ + pushes_.size() - 1; }
  bool may_enqueue() const { return !free_.empty() && next_ <= last(); }

  void start_writers();
  void end_writers() noexcept;
  void await(std::unique_lock<std::mutex>& lock, std::uint64_t number,
             const std::function<bool()>& done, const std::function<void()>& meanwhile = nullptr);
  void rethrow(std::unique_lock<std::mutex>& lock);
  void enqueue_downloads();
  void download(Slot& slot, Push& push);
  void write_slots(measure::HostTrack& track);
  void write_slot(const Slot& slot, const Push& push, measure::HostTrack& track);

  device::Buffer<std::byte> memory_;
  std::size_t slot_bytes_;
  launch::Heartbeat* heartbeat_;
  std::unique_ptr<device::Stream> download_;
  measure::HostTrack& main_track_;
  measure::DeviceTrack& download_track_;
  std::vector<measure::HostTrack*> tracks_;

  // Whoever pushes or frees a slot gives all free slots to the next rows in the queue. The lock
  // guards the download stream and its track, and what follows.
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Slot> slots_;
  std::vector<Slot*> free_;
  std::deque<Slot*> downloading_;  ///< in the order of their downloads; each goes to one writer
  std::deque<Push> pushes_;        ///< from the first that is not all written; growing moves none
  std::uint64_t first_ = 1;        ///< the number of pushes_.front()
  std::uint64_t next_ = 1;         ///< the first push whose rows are not all enqueued
  std::exception_ptr error_;
  std::stop_source stop_;  ///< requested when a writer has thrown, and to end the writers
  bool started_ = false;
  Crew crew_;  // last: its threads, the writers, use the rest
};

}  // namespace shardstream::pipeline
