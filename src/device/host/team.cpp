#include "device/host/team.hpp"

#include <chrono>

namespace shardstream::device::host {
namespace {

/// Spins for up to 50 microseconds, since the next kernel usually arrives within this time and
/// waking a sleeping thread takes longer than most waits for the last part of a kernel.
template <class Condition>
void spin_until(Condition holds) {
  constexpr std::chrono::microseconds max{50};
  const auto end = std::chrono::steady_clock::now() + max;
  while (!holds() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

}  // namespace

Team::Team(unsigned size) {
  try {
    for (unsigned part = 1; part < size; ++part) {
      threads_.emplace_back([this] { work(); });
    }
  } catch (const std::exception&) {
    end();
    throw;
  }
}

Team::~Team() {
  end();
}

void Team::end() noexcept {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Team::run(const PartFunction& part) {
  std::lock_guard turn(turn_);
  {
    std::lock_guard lock(mutex_);
    part_ = &part;
    error_ = nullptr;
    next_ = 0;
    ++round_;
  }
  start_.notify_all();
  call_parts(part);
  spin_until([this] { return busy_ == 0; });
  std::unique_lock lock(mutex_);
  part_ = nullptr;
  done_.wait(lock, [this] { return busy_ == 0; });
  if (error_) std::rethrow_exception(error_);
}

void Team::work() {
  unsigned long seen = 0;
  while (true) {
    spin_until([&] { return round_ != seen; });
    std::unique_lock lock(mutex_);
    start_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    const PartFunction* const part = part_;
    if (part == nullptr) continue;
    ++busy_;
    lock.unlock();
    call_parts(*part);
    lock.lock();
    if (--busy_ == 0) done_.notify_one();
  }
}

void Team::call_parts(const PartFunction& part) {
  const unsigned all = parts();
  for (unsigned number = next_++; number < all; number = next_++) call(part, number);
}

void Team::call(const PartFunction& part, unsigned number) {
  try {
    part(number, parts());
  } catch (...) {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

}  // namespace shardstream::device::host
