#include "pipeline/drain.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/error.hpp"

namespace shardstream::pipeline {

Drain::Drain(device::Device& device, measure::Recorder& recorder, std::size_t slot_bytes,
             std::uint64_t slots, unsigned writers, launch::Heartbeat* heartbeat)
    : memory_(device, device::Memory::pinned, slot_bytes * slots),
      slot_bytes_(slot_bytes),
      heartbeat_(heartbeat),
      download_(device.make_stream()),
      main_track_(recorder.main()),
      download_track_(recorder.device_track("download", device)),
      slots_(slots) {
  expect(1 <= writers && writers <= slots, "each writer has a slot, and there is one");
  for (Slot& slot : slots_) slot.downloaded = device.make_event();
  for (unsigned i = 0; i < writers; ++i) {
    tracks_.push_back(&recorder.host_track(fmt::format("writer {}", i)));
  }
}

Drain::~Drain() {
  end_writers();
  try {
    download_->synchronize();        // after an error downloads may still be under way
  } catch (const std::exception&) {  // the error itself is on its way to the user
  }
}

void Drain::push(const device::Event& after, const std::byte* data, std::size_t bytes,
                 device::Event& copied, Write write) {
  expect(bytes <= slot_bytes_, "what is drained fits into a slot");
  if (threads_.empty()) start_writers();
  const std::uint64_t number = pushed_;
  Slot& slot = slots_[slot_of(number)];
  await(number, [&] { return !slot.busy; });
  download_->wait(after);
  download_track_.begin(*download_, "download", bytes, static_cast<std::int64_t>(number));
  download_->download(memory(number), data, bytes);
  download_track_.end(*download_);
  download_->record(copied);
  download_->record(*slot.downloaded);
  {
    const std::lock_guard lock(mutex_);
    slot.bytes = bytes;
    slot.write = std::move(write);
    slot.busy = true;
    ++pushed_;
  }
  changed_.notify_all();
  if (heartbeat_ != nullptr) heartbeat_->move();
}

void Drain::finish() {
  if (threads_.empty()) return;
  await(pushed_, [&] { return written_ == pushed_; });
  end_writers();
}

void Drain::start_writers() {
  stop_ = {};
  error_ = nullptr;
  pushed_ = taken_ = written_ = 0;
  for (Slot& slot : slots_) slot.busy = false;
  for (auto* track : tracks_) {
    threads_.emplace_back([this, track] { write_slots(*track); });
  }
}

void Drain::end_writers() noexcept {
  stop_.request_stop();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
  for (Slot& slot : slots_) slot.write = nullptr;
}

/// By the pushing thread, at push `number`: until `done` holds, or throws what a writer threw.
void Drain::await(std::uint64_t number, const std::function<bool()>& done) {
  {
    const auto span = main_track_.phase("wait-for-writers", 0, static_cast<std::int64_t>(number));
    std::unique_lock lock(mutex_);
    changed_.wait(lock, stop_.get_token(), done);
  }
  if (!stop_.stop_requested()) return;
  end_writers();
  std::rethrow_exception(error_);
}

void Drain::write_slots(measure::HostTrack& track) {
  const std::stop_token stop = stop_.get_token();
  try {
    while (true) {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return taken_ < pushed_; })) return;
      if (stop.stop_requested()) return;
      const std::uint64_t number = taken_++;
      lock.unlock();
      write_slot(number, track);
      lock.lock();
      slots_[slot_of(number)].busy = false;
      ++written_;
      lock.unlock();
      changed_.notify_all();
      if (heartbeat_ != nullptr) heartbeat_->move();
    }
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
    stop_.request_stop();
  }
}

/// The slot is this writer's until it says that it is not busy any more.
void Drain::write_slot(std::uint64_t number, measure::HostTrack& track) {
  Slot& slot = slots_[slot_of(number)];
  {
    const auto span = track.phase("wait-for-download", 0, static_cast<std::int64_t>(number));
    slot.downloaded->synchronize();
  }
  const auto span = track.phase("write", slot.bytes, static_cast<std::int64_t>(number));
  std::exchange(slot.write, nullptr)(memory(number));
}

}  // namespace shardstream::pipeline
