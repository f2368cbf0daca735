// Streams side by side, between two points of one of them.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "device/device.hpp"

namespace shardstream::device {

/// Number 0 is the stream that fork() is given, the others are its own. The device must outlive it.
/// For one thread.
class ForkedStreams {
 public:
  /// `count` > 0.
  ForkedStreams(Device& device, std::size_t count);
  /// Waits for its own streams, whose work may use memory of the callers.
  ~ForkedStreams();
  ForkedStreams(const ForkedStreams&) = delete;
  ForkedStreams& operator=(const ForkedStreams&) = delete;

  std::size_t count() const { return own_.size() + 1; }

  /// What any of the streams is given until join() comes after what `first` has been given, and
  /// what `first` is given after join() comes after all of it.
  void fork(Stream& first);
  void join();
  /// Only between fork() and join().
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
