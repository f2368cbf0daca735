// The files of a joined source that are open. A file is opened when it is read, and stays open
// until others need its place.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "io/source/chunks/decoding_memory.hpp"
#include "io/source/dataset/planned_source.hpp"

namespace shardstream::io {

/// Thread-safe.
class PartPool {
 public:
  /// Opens a part. Called by several threads at a time, but only by one for the same part.
  using Open = std::function<std::unique_ptr<DatasetSource>(std::size_t part)>;

  /// All open parts together cost at most `limit`, except for a single part that costs more. Parts
  /// that no thread uses are closed to make room, the least recently used ones first; also one at a
  /// time while decoded chunks exceed the limit of `memory`.
  PartPool(std::vector<OpeningCost> costs, OpeningCost limit,
           std::shared_ptr<const DecodingMemory> memory, Open open);

  /// The part, which stays open as long as the pointer exists. Waits while parts that other threads
  /// use leave no room for it. So a thread must not have another part of the pool, nor a library's
  /// lock. Throws what opening throws.
  std::shared_ptr<const DatasetSource> get(std::size_t part);

  /// Closes all parts. No thread may use one.
  void close_all();

 private:
  struct Entry {
    std::mutex mutex;  // guards `source` until it is open
    std::unique_ptr<DatasetSource> source;
    std::uint64_t last_use = 0;
  };

  std::shared_ptr<Entry> take(std::size_t part);
  bool has_room_for(std::size_t part) const;
  bool close_one(std::unique_lock<std::mutex>& lock, std::size_t except);

  std::vector<OpeningCost> costs_;
  OpeningCost limit_;
  std::shared_ptr<const DecodingMemory> memory_;
  Open open_part_;
  std::condition_variable released_;  // a part has been released
  std::mutex mutex_;                  // guards everything below, and the owners of entries
  std::map<std::size_t, std::shared_ptr<Entry>> open_;
  OpeningCost used_{0, 0};
  std::uint64_t clock_ = 0;
};

}  // namespace shardstream::io
