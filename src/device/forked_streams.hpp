// A group of streams that work concurrently between two points, fork and join.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "device/device.hpp"

namespace shardstream::device {

/// Stream 0 is the stream that is passed to fork(); the object owns the others. The device must
/// outlive it. Not thread-safe.
class ForkedStreams {
 public:
  /// `count` > 0.
  ForkedStreams(Device& device, std::size_t count);
  /// Waits for the streams that the object owns, since their work may use memory of the caller.
  ~ForkedStreams();
  ForkedStreams(const ForkedStreams&) = delete;
  ForkedStreams& operator=(const ForkedStreams&) = delete;

  std::size_t count() const { return own_.size() + 1; }

  /// Call it before work is enqueued on the streams: that work waits for the earlier work of
  /// `first`.
  void fork(Stream& first);
  /// Makes work that is enqueued on the first stream from now on wait for all other streams.
  void join();
  /// The stream `number`. Call it only between fork() and join().
  Stream& operator[](std::size_t number) const {
    return number == 0 ? *first_ : *own_[number - 1].stream;
  }

 private:
  struct Own {
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Event> ended;
  };

  std::unique_ptr<Event> forked_;
  std::vector<Own> own_;
  Stream* first_ = nullptr;
};

}  // namespace shardstream::device
