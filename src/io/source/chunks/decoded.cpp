#include "io/source/chunks/decoded.hpp"

namespace shardstream::io {

DecodedChunks::Claim::~Claim() {
  if (owner_ != nullptr) owner_->finish(number_, nullptr, 0);
}

void DecodedChunks::Claim::keep(Bytes bytes, std::uint64_t elements) && {
  std::exchange(owner_, nullptr)->finish(number_, std::move(bytes), elements);
}

DecodedChunks::Found DecodedChunks::find(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(number);
  if (known == entries_.end()) {
    make_room(true);  // if it fails, each thread is decoding a chunk, so there are few
    entries_[number].last_use = ++clock_;
    return {nullptr, std::optional<Claim>(std::in_place, *this, number)};
  }
  known->second.last_use = ++clock_;
  known->second.ahead = false;
  return {known->second.bytes, std::nullopt};
}

std::optional<DecodedChunks::Claim> DecodedChunks::find_ahead(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (entries_.contains(number) || !make_room(false)) return std::nullopt;
  Entry& entry = entries_[number];
  entry.last_use = ++clock_;
  entry.ahead = true;
  return std::optional<Claim>(std::in_place, *this, number);
}

void DecodedChunks::wait(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  decoded_.wait(lock, [&] {
    const auto entry = entries_.find(number);
    return entry == entries_.end() || entry->second.bytes;
  });
}

void DecodedChunks::used(std::uint64_t number, std::uint64_t elements, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  bytes.reset();  // under the lock, so that memory() sees that no thread reads it any more
  const auto entry = entries_.find(number);
  if (entry == entries_.end() || !entry->second.bytes) return;  // released meanwhile
  if (entry->second.elements <= elements) return erase(entry);
  entry->second.elements -= elements;
}

DecodedChunks::Bytes DecodedChunks::memory() {
  {
    const std::lock_guard lock(mutex_);
    // Memory that a thread still copies from is not free yet.
    for (auto each = spare_.begin(); each != spare_.end(); ++each) {
      if (each->use_count() > 1) continue;
      Bytes bytes = std::move(*each);
      spare_.erase(each);
      return bytes;
    }
  }
  return std::make_shared<AlignedBytes>(DirectFile::block(), DirectFile::room(chunk_bytes_));
}

/// `bytes` is null if the chunk was not kept.
void DecodedChunks::finish(std::uint64_t number, Bytes bytes, std::uint64_t elements) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(number);
  if (bytes) {
    entry->second.bytes = std::move(bytes);
    entry->second.elements = elements;
  } else {
    entries_.erase(entry);
  }
  decoded_.notify_all();
}

void DecodedChunks::erase(std::map<std::uint64_t, Entry>::iterator entry) {
  if (spare_.size() < 2) spare_.push_back(std::move(entry->second.bytes));
  entries_.erase(entry);
}

/// If there is no room for another chunk, releases the least recently used one. Returns false if
/// all chunks are needed.
bool DecodedChunks::make_room(bool also_ahead) {
  if (entries_.size() < room_) return true;
  auto oldest = entries_.end();
  for (auto each = entries_.begin(); each != entries_.end(); ++each) {
    if (!each->second.bytes || (each->second.ahead && !also_ahead)) continue;
    if (oldest == entries_.end() || each->second.last_use < oldest->second.last_use) oldest = each;
  }
  if (oldest == entries_.end()) return false;
  erase(oldest);
  return true;
}

}  // namespace shardstream::io
