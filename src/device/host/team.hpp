// The threads that run the parts of a kernel on the host backend.
#pragma once

#include <atomic>
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

  /// Calls part(p, parts) for every p < parts and returns when all calls are done. Rethrows the
  /// first exception of a part. There are more parts than threads, and the threads take one part
  /// after another. So a thread that other programs delay does not delay the whole kernel.
  void run(const std::function<void(unsigned part, unsigned parts)>& part);

 private:
  using PartFunction = std::function<void(unsigned, unsigned)>;

  void work();
  void end() noexcept;
  void call_parts(const PartFunction& part);
  void call(const PartFunction& part, unsigned number);
  unsigned parts() const { return threads_.empty() ? 1 : parts_a_thread * size(); }

  static constexpr unsigned parts_a_thread = 4;

  std::mutex turn_;   // held by the stream whose kernel runs
  std::mutex mutex_;  // guards everything below
  std::condition_variable start_, done_;
  const PartFunction* part_ = nullptr;  // the current kernel; null between kernels
  std::exception_ptr error_;
  bool stop_ = false;
  // round_ and busy_ change under the lock; spinning threads read them without it.
  std::atomic<unsigned long> round_ = 0;  // number of calls of run()
  std::atomic<unsigned> busy_ = 0;        // threads that execute parts, except the caller of run()
  std::atomic<unsigned> next_ = 0;        // the next part to be executed
  std::vector<std::thread> threads_;
};

}  // namespace shardstream::device::host
