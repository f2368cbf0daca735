#include "comm/collective_wait.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace shardstream::comm {
namespace {

/// Shorter than the watchdog's shortest interval.
constexpr std::chrono::milliseconds poll_interval{50};

}  // namespace

CollectiveWait::CollectiveWait(device::Device& device, ranks::Heartbeat& heartbeat)
    : device_(device),
      heartbeat_(heartbeat),
      thread_([this](const std::stop_token& stop) { watch(stop); }) {}

/// Joins the thread before the members that it uses are destroyed.
CollectiveWait::~CollectiveWait() {
  thread_.request_stop();
  thread_.join();
}

void CollectiveWait::begin(device::Stream& stream) {
  if (!next_.begun) {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      next_ = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!next_.begun) next_ = {device_.make_event(), device_.make_event()};
  stream.record(*next_.begun);
}

void CollectiveWait::end(device::Stream& stream) {
  stream.record(*next_.ended);
  const std::lock_guard lock(mutex_);
  enqueued_.push_back(std::exchange(next_, {}));
}

void CollectiveWait::synchronize(device::Stream& stream) {
  stream.synchronize();
  const std::lock_guard lock(mutex_);
  update();
}

void CollectiveWait::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  try {
    while (!stop.stop_requested()) {
      update();
      stopped_.wait_for(lock, stop, poll_interval, [] { return false; });
    }
  } catch (const std::exception&) {  // an error of the device: every synchronize() throws it too
  }
  waiting_.reset();
}

/// The caller holds the lock.
void CollectiveWait::update() {
  const auto ended = std::ranges::partition(
      enqueued_, [](const Collective& collective) { return !collective.ended->reached(); });
  idle_.insert(idle_.end(), std::move_iterator(ended.begin()), std::move_iterator(ended.end()));
  enqueued_.erase(ended.begin(), ended.end());
  const bool waits = std::ranges::any_of(
      enqueued_, [](const Collective& collective) { return collective.begun->reached(); });
  if (waits && !waiting_) waiting_.emplace(heartbeat_);
  if (!waits) waiting_.reset();
}

}  // namespace shardstream::comm
