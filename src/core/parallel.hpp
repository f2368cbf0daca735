// A loop over independent items on a few threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace shardstream {

/// Calls item(i) for every i < count on `threads` threads. The caller is one of them and starts
/// with item 0. If an item throws, items that have not begun are skipped, and the first exception
/// is rethrown here. Runs on fewer threads if not all of them can be started.
template <class Item>
void parallel_for(std::uint64_t count, unsigned threads, const Item& item) {
  std::atomic<std::uint64_t> next{1};
  std::mutex mutex;
  std::exception_ptr error;
  const auto work = [&](std::uint64_t first) {
    try {
      for (std::uint64_t i = first; i < count; i = next++) item(i);
    } catch (...) {
      next = count;
      std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  try {
    for (unsigned i = 1; i < threads; ++i) others.emplace_back([&] { work(next++); });
  } catch (const std::exception&) {
    // There are no more threads or no memory: the threads that have started do all the work.
  }
  work(0);
  for (auto& other : others) other.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace shardstream
