// Streams beside one another, between two points of one of them.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "device/device.hpp"

namespace shardstream::device {

/// Lane 0 is the stream that fork() is given, the others are streams of its own. The device must
/// outlive it. For one thread.
class Lanes {
 public:
  /// `count` > 0.
  Lanes(Device& device, std::size_t count);
  /// Waits for its streams, whose work may use memory of the callers.
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  std::size_t count() const { return beside_.size() + 1; }

  /// What any lane is given until join() comes after what `first` has been given, and what `first`
  /// is given after join() comes after all of it.
  void fork(Stream& first);
  void join();
  /// Between the two.
  Stream& operator[](std::size_t lane) const {
    return lane == 0 ? *first_ : *beside_[lane - 1].stream;
  }

 private:
  struct Beside {
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Event> ended;
  };

  std::unique_ptr<Event> forked_;
  std::vector<Beside> beside_;
  Stream* first_ = nullptr;
};

}  // namespace shardstream::device
