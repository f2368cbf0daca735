// The threads that run the parts of a kernel on the host backend.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace shardstream::device::host {

/// A fixed set of threads. Kernels of several streams run one after the other, as they would on a
/// GPU that each of them fills. Thread-safe.
class Team {
 public:
  /// `size` >= 1 threads in total, including the caller of run().
  explicit Team(unsigned size);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  unsigned size() const { return static_cast<unsigned>(threads_.size()) + 1; }

  /// Calls part(p, size()) for every p < size() and returns when all calls are done. Rethrows the
  /// first exception of a part.
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
