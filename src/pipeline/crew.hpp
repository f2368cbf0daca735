// Threads that stay from one run to the next. Starting and joining threads would take a
// millisecond, in which 50 MB could be uploaded.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace shardstream::pipeline {

/// Only one thread may call start() and wait().
class Crew {
 public:
  /// Thread i of `count` calls work(i), which throws nothing, once for each start().
  Crew(unsigned count, std::function<void(unsigned)> work);
  /// Waits for the threads.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Makes each thread call work() once. Must not be called while a thread is at work. The threads
  /// see everything that the caller has written before.
  void start();
  /// Blocks until every thread has finished the work of the last start(). Returns at once if there
  /// was no start().
  void wait() noexcept;

 private:
  void serve(unsigned number);
  void end() noexcept;

  std::function<void(unsigned)> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t starts_ = 0;
  unsigned working_ = 0;
  bool ends_ = false;
  std::vector<std::thread> threads_;  // last: they use the rest
};

}  // namespace shardstream::pipeline
