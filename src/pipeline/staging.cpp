#include "pipeline/staging.hpp"

#include <fmt/format.h>

namespace shardstream::pipeline {
namespace {

/// From `before` to the next number, unless the end has been said meanwhile.
void advance(std::atomic<std::uint64_t>& number, std::uint64_t before) {
  if (number.compare_exchange_strong(before, before + 1)) number.notify_one();
}

}  // namespace

Staging::Staging(device::Device& device, measure::Recorder& recorder, std::size_t slot_bytes,
                 std::uint64_t slots, unsigned readers)
    : memory_(device, device::Memory::pinned, slot_bytes * slots),
      slot_bytes_(slot_bytes),
      slots_(slots) {
  for (auto& slot : slots_) slot.emptied = device.make_event();
  for (unsigned i = 0; i < readers; ++i) {
    readers_.push_back(&recorder.host_track(fmt::format("reader {}", i)));
  }
}

Staging::~Staging() {
  finish();
}

void Staging::start(std::uint64_t pieces, Read read) {
  finish();
  pieces_ = pieces;
  next_ = 0;
  error_ = nullptr;
  read_ = std::move(read);
  for (auto& slot : slots_) slot.filled = slot.released = 0;
  for (auto* track : readers_) threads_.emplace_back([this, track] { read_pieces(*track); });
}

const std::byte* Staging::wait(std::uint64_t piece) {
  auto& filled = slot(piece).filled;
  for (auto seen = filled.load(); seen <= round(piece); seen = filled.load()) filled.wait(seen);
  if (filled.load() == ended) {
    std::lock_guard lock(error_mutex_);
    std::rethrow_exception(error_);
  }
  return slot(piece).start;
}

void Staging::release(std::uint64_t piece, device::Stream& stream) {
  stream.record(*slot(piece).emptied);
  advance(slot(piece).released, round(piece));
}

void Staging::finish() noexcept {
  if (threads_.empty()) return;
  end();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

void Staging::read_pieces(measure::HostTrack& track) {
  try {
    for (std::uint64_t piece = next_++; piece < pieces_; piece = next_++) {
      if (!await_slot(piece, track)) return;
      slot(piece).start = read_(piece, memory(piece), track);
      advance(slot(piece).filled, round(piece));
    }
  } catch (...) {
    {
      std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
    end();
  }
}

/// False when there will be no more pieces.
bool Staging::await_slot(std::uint64_t piece, measure::HostTrack& track) {
  const auto span = track.phase("wait-for-slot");
  auto& released = slot(piece).released;
  for (auto seen = released.load(); seen < round(piece); seen = released.load()) {
    released.wait(seen);
  }
  if (released.load() == ended) return false;
  slot(piece).emptied->synchronize();
  return true;
}

/// No more pieces: whoever waits for a slot wakes up.
void Staging::end() {
  next_ = pieces_;
  for (auto& slot : slots_) {
    slot.filled = slot.released = ended;
    slot.filled.notify_all();
    slot.released.notify_all();
  }
}

std::byte* Staging::memory(std::uint64_t piece) const {
  return memory_.data() + piece % slots_.size() * slot_bytes_;
}

}  // namespace shardstream::pipeline
