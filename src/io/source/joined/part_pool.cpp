#include "io/source/joined/part_pool.hpp"

#include <utility>

namespace shardstream::io {

PartPool::PartPool(std::vector<OpeningCost> costs, OpeningCost limit,
                   std::shared_ptr<const DecodingMemory> memory, Open open)
    : costs_(std::move(costs)),
      limit_(limit),
      memory_(std::move(memory)),
      open_part_(std::move(open)) {}

std::shared_ptr<const DatasetSource> PartPool::get(std::size_t part) {
  const std::shared_ptr<Entry> entry = take(part);
  const std::lock_guard lock(entry->mutex);
  if (!entry->source) entry->source = open_part_(part);
  return {entry, entry->source.get()};
}

/// The entry of a part, which is in use as long as the pointer exists.
std::shared_ptr<PartPool::Entry> PartPool::take(std::size_t part) {
  std::unique_lock lock(mutex_);
  if (!memory_->has_room(0)) close_one(lock, part);  // other files have used up the limit
  while (!open_.contains(part)) {
    if (has_room_for(part)) {
      open_.emplace(part, std::make_shared<Entry>());
      used_.descriptors += costs_[part].descriptors;
      used_.bytes += costs_[part].bytes;
    } else if (!close_one(lock, part)) {
      released_.wait(lock);  // all open parts are in use
    }
  }
  std::shared_ptr<Entry> entry = open_.at(part);
  entry->last_use = ++clock_;
  lock.unlock();
  Entry* const address = entry.get();
  return {address, [this, owner = std::move(entry)](Entry*) mutable {
            {
              const std::lock_guard guard(mutex_);
              owner.reset();
            }
            released_.notify_all();
          }};
}

/// Whether the part may be opened. The caller holds the mutex.
bool PartPool::has_room_for(std::size_t part) const {
  const OpeningCost& cost = costs_[part];
  return used_.descriptors == 0 || (used_.descriptors + cost.descriptors <= limit_.descriptors &&
                                    used_.bytes + cost.bytes <= limit_.bytes);
}

/// Closes the least recently used part that no thread uses, other than `except`, while `lock` is
/// released, since a library may have to wait for its own lock. Returns false if there is none.
bool PartPool::close_one(std::unique_lock<std::mutex>& lock, std::size_t except) {
  auto oldest = open_.end();
  for (auto each = open_.begin(); each != open_.end(); ++each) {
    // Only take() makes more owners, so a single owner stays the only one.
    if (each->first == except || each->second.use_count() > 1) continue;
    if (oldest == open_.end() || each->second->last_use < oldest->second->last_use) oldest = each;
  }
  if (oldest == open_.end()) return false;
  const OpeningCost cost = costs_[oldest->first];
  std::shared_ptr<Entry> superfluous = std::move(oldest->second);
  open_.erase(oldest);
  lock.unlock();
  superfluous.reset();
  lock.lock();
  used_.descriptors -= cost.descriptors;  // not before it is closed
  used_.bytes -= cost.bytes;
  released_.notify_all();
  return true;
}

void PartPool::close_all() {
  const std::lock_guard lock(mutex_);
  open_.clear();
  used_ = {0, 0};
}

}  // namespace shardstream::io
