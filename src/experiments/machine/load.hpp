// Work that keeps a device or its link busy while something else is measured.
#pragma once

#include <exception>
#include <memory>
#include <semaphore>
#include <stop_token>
#include <thread>
#include <vector>

#include "device/device.hpp"

namespace shardstream::experiments::machine {

/// Some work on streams of its own.
class Load {
 public:
  virtual ~Load() = default;
  /// Enqueues a round of the work, which takes about a millisecond.
  virtual void enqueue() = 0;
  virtual const std::vector<std::unique_ptr<device::Stream>>& streams() const = 0;
};

/// Matrix products of floats: on a GPU by tensor cores (tf32), which need 192 MiB there. Null if
/// this build has no library for them. The device must outlive the load.
std::unique_ptr<Load> make_product_load(device::Device& device);
/// Copies between pinned memory and the device, in both directions at the same time. The device
/// must outlive the load.
std::unique_ptr<Load> make_link_load(device::Device& device);

/// While an object of this class lives, a thread repeats the load. Each round waits for the end of
/// the one before it. If copies were always queued, a copy engine would not turn to the copies of
/// other streams. The load must outlive the object.
class BusyGuard {
 public:
  /// Returns after the first round has ended, or after the thread has failed.
  explicit BusyGuard(Load& load);
  ~BusyGuard();
  BusyGuard(const BusyGuard&) = delete;
  BusyGuard& operator=(const BusyGuard&) = delete;

  /// Ends the load and rethrows the exception of its thread. Call it once.
  void end();

 private:
  void repeat(const std::stop_token& stop);
  void round();

  Load& load_;
  std::exception_ptr error_;  ///< of the thread; read after its end
  std::binary_semaphore begun_{0};
  std::jthread thread_;  // last: it uses the rest
};

}  // namespace shardstream::experiments::machine
