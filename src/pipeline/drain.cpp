#include "pipeline/drain.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "core/error.hpp"

namespace shardstream::pipeline {
namespace {

constexpr std::chrono::milliseconds between_calls{200};

}  // namespace

Drain::Drain(device::Device& device, measure::Recorder& recorder, std::size_t slot_bytes,
             std::uint64_t slots, unsigned writers, ranks::Heartbeat* heartbeat)
    : memory_(device, device::Memory::pinned, slot_bytes * slots),
      slot_bytes_(slot_bytes),
      heartbeat_(heartbeat),
      download_(device.make_stream()),
      main_track_(recorder.main()),
      download_track_(recorder.device_track("download", device)),
      slots_(slots),
      crew_(writers, [this](unsigned writer) { write_slots(*tracks_[writer]); }) {
  expect(1 <= writers && writers <= slots, "there is a writer, and a slot for each writer");
  for (std::uint64_t i = 0; i < slots; ++i) {
    slots_[i].memory = memory_.data() + i * slot_bytes;
    slots_[i].downloaded = device.make_event();
  }
  for (unsigned i = 0; i < writers; ++i) {
    tracks_.push_back(&recorder.host_track(fmt::format("writer {}", i)));
  }
}

Drain::~Drain() {
  end_writers();
}

std::uint64_t Drain::push(const device::Event& after, const std::byte* data, std::uint64_t rows,
                          std::size_t row_bytes, Write write) {
  expect(rows > 0 && row_bytes > 0 && row_bytes <= slot_bytes_,
         "there are rows, and each fits into a slot");
  if (!started_) start_writers();
  std::unique_lock lock(mutex_);
  rethrow(lock);
  pushes_.push_back({&after, data, rows, row_bytes, std::move(write)});
  const std::uint64_t number = last();
  enqueue_downloads();  // all writers may be busy although slots are free
  return number;
}

void Drain::wait(device::Stream& stream, std::uint64_t number) {
  std::unique_lock lock(mutex_);
  expect(number <= last(), "the number is that of a push");
  if (number >= next_) await(lock, number, [&] { return number < next_; });
  // A push that is written needs no wait. Otherwise, the slot may already hold rows of a later
  // push; waiting for its event then takes a little longer than necessary.
  if (number >= first_) stream.wait(*pushed(number).last->downloaded);
}

void Drain::finish(const std::function<void()>& meanwhile) {
  if (!started_) return;
  {
    std::unique_lock lock(mutex_);
    await(
        lock, last(), [&] { return pushes_.empty(); }, meanwhile);
  }
  end_writers();
}

void Drain::start_writers() {
  stop_ = {};
  error_ = nullptr;
  free_.clear();
  for (Slot& slot : slots_) free_.push_back(&slot);
  crew_.start();
  started_ = true;
}

void Drain::end_writers() noexcept {
  stop_.request_stop();
  crew_.wait();
  started_ = false;
  if (pushes_.empty()) return;
  // Everything else is lost. Some downloads may still be running.
  try {
    download_->synchronize();
  } catch (const std::exception&) {
    // The original error is already being reported.
  }
  downloading_.clear();
  first_ = next_ = last() + 1;
  pushes_.clear();
}

/// Called by the main thread. Blocks until `done` holds for push `number`, and rethrows an
/// exception of a writer. Calls `meanwhile`, if it is set, from time to time without the lock.
void Drain::await(std::unique_lock<std::mutex>& lock, std::uint64_t number,
                  const std::function<bool()>& done, const std::function<void()>& meanwhile) {
  {
    const auto span = main_track_.phase("wait-for-writers", measure::PhaseKind::waiting, 0,
                                        static_cast<std::int64_t>(number));
    if (meanwhile) {
      while (!changed_.wait_for(lock, stop_.get_token(), between_calls, done) &&
             !stop_.stop_requested()) {
        lock.unlock();
        meanwhile();
        lock.lock();
      }
    }
    changed_.wait(lock, stop_.get_token(), done);
  }
  rethrow(lock);
}

void Drain::rethrow(std::unique_lock<std::mutex>& lock) {
  if (!error_) return;
  lock.unlock();
  end_writers();
  std::rethrow_exception(std::exchange(error_, nullptr));
}

void Drain::enqueue_downloads() {
  if (!may_enqueue()) return;
  do {
    download(*free_.back(), pushed(next_));
    downloading_.push_back(free_.back());
    free_.pop_back();
  } while (may_enqueue());
  changed_.notify_all();
}

/// Enqueues the download of the next rows of push `next_`.
void Drain::download(Slot& slot, Push& push) {
  slot.number = next_;
  slot.rows = intersection({0, push.rows}, {push.enqueued, slot_bytes_ / push.row_bytes});
  if (push.enqueued == 0) {
    download_->wait(*push.after);
    download_track_.begin(*download_, "download", measure::PhaseKind::transfer,
                          push.rows * push.row_bytes, static_cast<std::int64_t>(next_));
  }
  download_->download(slot.memory, push.data + slot.rows.first * push.row_bytes,
                      slot.rows.count * push.row_bytes);
  download_->record(*slot.downloaded);
  push.last = &slot;
  push.enqueued += slot.rows.count;
  if (push.enqueued < push.rows) return;
  download_track_.end(*download_);
  ++next_;
}

void Drain::write_slots(measure::HostTrack& track) {
  const auto some_work = [this] { return may_enqueue() || !downloading_.empty(); };
  std::unique_lock lock(mutex_);
  try {
    while (changed_.wait(lock, stop_.get_token(), some_work) && !stop_.stop_requested()) {
      enqueue_downloads();
      Slot& slot = *downloading_.front();
      downloading_.pop_front();
      Push& push = pushed(slot.number);
      lock.unlock();
      write_slot(slot, push, track);
      if (heartbeat_ != nullptr) heartbeat_->move();
      lock.lock();
      free_.push_back(&slot);
      push.written += slot.rows.count;
      for (; !pushes_.empty() && pushes_.front().written == pushes_.front().rows; ++first_) {
        pushes_.pop_front();
      }
      if (pushes_.empty()) changed_.notify_all();
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    if (!error_) error_ = std::current_exception();
    lock.unlock();
    stop_.request_stop();
  }
}

/// The writer owns the slot until it returns it to `free_`, so this needs no lock.
void Drain::write_slot(const Slot& slot, const Push& push, measure::HostTrack& track) {
  const auto number = static_cast<std::int64_t>(slot.number);
  {
    const auto span = track.phase("wait-for-download", measure::PhaseKind::waiting, 0, number);
    slot.downloaded->synchronize();
  }
  const auto span =
      track.phase("write", measure::PhaseKind::useful, slot.rows.count * push.row_bytes, number);
  push.write(slot.rows, slot.memory);
}

}  // namespace shardstream::pipeline
