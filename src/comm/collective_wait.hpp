// Which collectives a rank waits in, where they run in the order of a stream, as NCCL's do.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "device/device.hpp"
#include "launch/heartbeat.hpp"

namespace shardstream::comm {

/// Tells a rank that waits for the others from one whose own device does not go on, whatever its
/// threads wait for: the rank is marked as waiting while a stream has come to a collective and not
/// to its end. A thread of its own looks, many times a second. A collective does not
/// wake it, since its look would hold up the caller. Used by one thread.
class CollectiveWait {
 public:
  /// Both must outlive it.
  CollectiveWait(device::Device& device, launch::Heartbeat& heartbeat);
  ~CollectiveWait();
  CollectiveWait(const CollectiveWait&) = delete;
  CollectiveWait& operator=(const CollectiveWait&) = delete;

  /// Before a collective is enqueued, and after it has been.
  void begin(device::Stream& stream);
  void end(device::Stream& stream);

  /// Waits for all work of `stream`; throws what its synchronize() throws. When it returns, the
  /// rank waits in none of the stream's collectives.
  void synchronize(device::Stream& stream);

 private:
  struct Collective {
    std::unique_ptr<device::Event> begun, ended;
  };

  void watch(const std::stop_token& stop);
  void look();

  device::Device& device_;
  launch::Heartbeat& heartbeat_;
  Collective next_;
  // The lock guards what follows.
  std::mutex mutex_;
  std::condition_variable_any stopped_;  // the stop of the thread alone ends a pause
  std::vector<Collective> enqueued_, idle_;
  std::optional<launch::Heartbeat::Waiting> waiting_;
  std::jthread thread_;
};

}  // namespace shardstream::comm
