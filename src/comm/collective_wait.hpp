// Detects that a rank waits for other ranks inside a collective that runs on a stream, as the
// collectives of NCCL do.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "device/device.hpp"
#include "ranks/heartbeat.hpp"

namespace shardstream::comm {

/// Distinguishes a rank that waits for other ranks from a rank whose own device makes no progress.
/// The rank is marked as waiting while a stream is inside a collective: it has reached the
/// beginning but not the end. A thread polls this many times a second. A collective does not wake
/// that thread, since this would delay the caller. Not thread-safe.
class CollectiveWait {
 public:
  /// Device and heartbeat must outlive this object.
  CollectiveWait(device::Device& device, ranks::Heartbeat& heartbeat);
  ~CollectiveWait();
  CollectiveWait(const CollectiveWait&) = delete;
  CollectiveWait& operator=(const CollectiveWait&) = delete;

  /// Call begin() before a collective is enqueued on `stream`, and end() afterwards.
  void begin(device::Stream& stream);
  void end(device::Stream& stream);

  /// Waits for all work of `stream` and throws what its synchronize() throws. After it returns, the
  /// rank does not count as waiting in any collective of this stream.
  void synchronize(device::Stream& stream);

 private:
  struct Collective {
    std::unique_ptr<device::Event> begun, ended;
  };

  void watch(const std::stop_token& stop);
  void update();

  device::Device& device_;
  ranks::Heartbeat& heartbeat_;
  Collective next_;
  std::mutex mutex_;                     // guards everything below
  std::condition_variable_any stopped_;  // only a stop request ends a pause
  std::vector<Collective> enqueued_, idle_;
  std::optional<ranks::Heartbeat::Waiting> waiting_;
  std::jthread thread_;
};

}  // namespace shardstream::comm
