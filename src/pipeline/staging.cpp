#include "pipeline/staging.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace shardstream::pipeline {

Staging::Staging(device::Device& device, measure::Recorder& recorder, std::size_t slot_bytes,
                 std::uint64_t slots, unsigned readers)
    : memory_(device, device::Memory::pinned, slot_bytes * slots), slot_bytes_(slot_bytes) {
  expect(readers <= slots, "each reader has a slot");
  for (std::uint64_t i = 0; i < slots; ++i) emptied_.push_back(device.make_event());
  for (unsigned i = 0; i < readers; ++i) {
    tracks_.push_back(&recorder.host_track(fmt::format("reader {}", i)));
  }
}

Staging::~Staging() {
  finish();
}

void Staging::start(std::uint64_t pieces, Read read, Upload upload) {
  finish();
  pieces_ = pieces;
  read_ = std::move(read);
  upload_ = std::move(upload);
  next_ = 0;
  stop_ = {};
  error_ = nullptr;
  for (unsigned i = 0; i < tracks_.size(); ++i) {
    threads_.emplace_back([this, i] { read_pieces(i); });
  }
}

void Staging::rethrow() {
  std::lock_guard lock(error_mutex_);
  if (error_) std::rethrow_exception(error_);
}

void Staging::finish() noexcept {
  stop_.request_stop();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

/// The reader's slots are `reader`, `reader` + readers, ...
void Staging::read_pieces(unsigned reader) {
  const std::stop_token stop = stop_.get_token();
  measure::HostTrack& track = *tracks_[reader];
  try {
    std::uint64_t slot = reader;
    for (std::uint64_t piece = next_++; piece < pieces_ && !stop.stop_requested();
         piece = next_++) {
      std::byte* const memory = memory_.data() + slot * slot_bytes_;
      {
        const auto span = track.phase("wait-for-slot", measure::Kind::waiting);
        emptied_[slot]->synchronize();
      }
      const std::byte* const data = read_(piece, memory, track);
      upload_(piece, data, *emptied_[slot], track, stop);
      slot += tracks_.size();
      if (slot >= emptied_.size()) slot = reader;
    }
  } catch (...) {
    {
      std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
    stop_.request_stop();
  }
}

}  // namespace shardstream::pipeline
