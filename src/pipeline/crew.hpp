// Threads that stay from one run to the next: starting and joining some takes a millisecond, as
// long as uploading 50 MB.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace shardstream::pipeline {

/// start() and wait() are for one thread.
class Crew {
 public:
  /// Thread i of `count` calls work(i), which throws nothing, once for each start().
  Crew(unsigned count, std::function<void(unsigned)> work);
  /// Waits for them.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Must not be called while any thread is at work. All threads see what the caller wrote before.
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
