// The threads that share one kernel's parts on a host.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace shardstream::device::host {

/// A fixed set of threads. run() is the whole interface; kernels of several streams take turns, as
/// they would on a GPU that each of them fills.
class Team {
 public:
  /// `size` >= 1 threads in all, the caller of run() among them.
  explicit Team(unsigned size);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  unsigned size() const { return static_cast<unsigned>(threads_.size()) + 1; }

  /// Calls part(p, size()) for every p < size() and returns when all are done. The first exception
  /// of a part is thrown here.
  void run(const std::function<void(unsigned part, unsigned parts)>& part);

 private:
  void work(unsigned part);
  void end() noexcept;
  void call(unsigned part);

  std::mutex turn_;   // held by the stream whose kernel runs
  std::mutex mutex_;  // guards everything below
  std::condition_variable start_, done_;
  const std::function<void(unsigned, unsigned)>* part_ = nullptr;
  std::exception_ptr error_;
  unsigned long round_ = 0;
  unsigned busy_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace shardstream::device::host
