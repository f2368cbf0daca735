#include "io/source/chunks/decoded.hpp"

namespace shardstream::io {

DecodedChunks::Claim::~Claim() {
  if (owner_ != nullptr) owner_->finish(number_, nullptr, 0);
}

void DecodedChunks::Claim::keep(Bytes bytes, std::uint64_t elements) && {
  std::exchange(owner_, nullptr)->finish(number_, std::move(bytes), elements);
}

DecodedChunks::~DecodedChunks() {
  while (!entries_.empty()) erase(entries_.begin());
}

DecodedChunks::Found DecodedChunks::find(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(number);
  if (known == entries_.end()) {
    make_room(true);  // if it fails, each thread is decoding a chunk, so there are few
    insert(number);
    return {nullptr, std::optional<Claim>(std::in_place, *this, number)};
  }
  known->second.last_use = ++clock_;
  known->second.ahead = false;
  return {known->second.bytes, std::nullopt};
}

std::optional<DecodedChunks::Claim> DecodedChunks::find_ahead(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (entries_.contains(number) || !make_room(false)) return std::nullopt;
  insert(number).ahead = true;
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
  memory_->end_use(std::move(bytes));
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(number);
  if (entry == entries_.end() || !entry->second.bytes) return;  // released meanwhile
  if (entry->second.elements <= elements) return erase(entry);
  entry->second.elements -= elements;
}

DecodedChunks::Entry& DecodedChunks::insert(std::uint64_t number) {
  memory_->add(chunk_bytes_);
  Entry& entry = entries_[number];
  entry.last_use = ++clock_;
  return entry;
}

/// `bytes` is null if the chunk was not kept.
void DecodedChunks::finish(std::uint64_t number, Bytes bytes, std::uint64_t elements) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(number);
  if (bytes) {
    entry->second.bytes = std::move(bytes);
    entry->second.elements = elements;
  } else {
    erase(entry);
  }
  decoded_.notify_all();
}

void DecodedChunks::erase(std::map<std::uint64_t, Entry>::iterator entry) {
  memory_->remove(chunk_bytes_);
  if (entry->second.bytes) memory_->release(std::move(entry->second.bytes), chunk_bytes_);
  entries_.erase(entry);
}

/// If there is no room for another chunk, releases the least recently used one. Returns false if
/// all chunks are needed.
bool DecodedChunks::make_room(bool also_ahead) {
  constexpr std::size_t min_chunks = 2;
  if (entries_.size() < min_chunks ||
      (entries_.size() < room_ && memory_->has_room(chunk_bytes_))) {
    return true;
  }
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
