// Downloads results, in the opposite direction of UploadRing: device memory -> download stream ->
// pinned slots -> writers.
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
#include "measure/track.hpp"
#include "pipeline/crew.hpp"
#include "ranks/heartbeat.hpp"

namespace shardstream::pipeline {

/// Allocates its slots once. Only the main thread of the recorder may call push(), wait() and
/// finish(), repeatedly. The device, the recorder and the heartbeat must outlive it. It writes to
/// the tracks "download", "writer 0", "writer 1", ..., so only one drain of a recorder may work at
/// a time.
class Drain {
 public:
  /// Writes some rows of one push(), counted from its first row. `data` points to the rows, which
  /// are dense. Several writers may call it at a time, also for one push(), in any order.
  using Write = std::function<void(Range rows, const std::byte* data)>;

  /// There must be at least as many slots as writers.
  Drain(device::Device& device, measure::Recorder& recorder, std::size_t slot_bytes,
        std::uint64_t slots, unsigned writers, ranks::Heartbeat* heartbeat = nullptr);
  /// Waits for its stream and its writers. Rows that no writer has begun to write are lost.
  ~Drain();
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

  /// Enqueues the download of `rows` > 0 dense rows at device address `data` after the event
  /// `after`. A row has `row_bytes` > 0 bytes and fits into a slot. `write` is called with as many
  /// rows at a time as a slot holds, until it has got all rows. Downloads are made in the order of
  /// their pushes. push() never blocks; the queue is unlimited. Returns the number of the push for
  /// wait(): 1, 2, 3, ...
  ///
  /// Until wait() for this push or finish() has returned, the caller must not enqueue work that
  /// overwrites `data`, and must neither destroy `after` nor record it again. `after` must already
  /// be recorded. Objects that `write` refers to must live until finish() has returned or thrown,
  /// or until the drain is destroyed.
  ///
  /// push(), finish(), and a wait() that blocks the thread rethrow the exception of a writer, once.
  /// Then no writer is working, and everything else that was pushed is lost.
  std::uint64_t push(const device::Event& after, const std::byte* data, std::uint64_t rows,
                     std::size_t row_bytes, Write write);

  /// Makes work that is enqueued on `stream` from now on wait for the download of push `number`, so
  /// that this work may overwrite the device memory. Blocks until that download is enqueued, which
  /// needs a free slot. Does nothing for number 0.
  void wait(device::Stream& stream, std::uint64_t number);

  /// Blocks until everything is written. Calls `meanwhile`, if it is set, several times per second.
  /// Errors of the device appear when a stream is synchronised: the written data is valid only if
  /// the caller's streams then have no error.
  void finish(const std::function<void()>& meanwhile = nullptr);

 private:
  struct Slot {
    std::byte* memory = nullptr;
    std::unique_ptr<device::Event> downloaded;
    // The contents, valid from the download to the end of writing.
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
    const Slot* last = nullptr;               ///< the slot of the latest downloaded rows
  };
  /// The push with this number, which must not be completely written.
  Push& pushed(std::uint64_t number) { return pushes_[number - first_]; }
  /// The number of the latest push.
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
  ranks::Heartbeat* heartbeat_;
  std::unique_ptr<device::Stream> download_;
  measure::HostTrack& main_track_;
  measure::DeviceTrack& download_track_;
  std::vector<measure::HostTrack*> tracks_;

  // A thread that calls push(), or that frees a slot, assigns all free slots to the next rows in
  // the queue. The lock guards the download stream, its track, and the members below.
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Slot> slots_;
  std::vector<Slot*> free_;
  std::deque<Slot*> downloading_;  ///< in the order of their downloads; each goes to one writer
  /// All pushes from the first one that is not completely written. A deque keeps references valid.
  std::deque<Push> pushes_;
  std::uint64_t first_ = 1;  ///< the number of pushes_.front()
  std::uint64_t next_ = 1;   ///< the first push with rows that are not enqueued
  std::exception_ptr error_;
  std::stop_source stop_;  ///< requested when a writer has thrown, and to end the writers
  bool started_ = false;
  Crew crew_;  // last: its threads, the writers, use the rest
};

}  // namespace shardstream::pipeline
