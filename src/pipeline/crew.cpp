#include "pipeline/crew.hpp"

#include <utility>

#include "core/error.hpp"

namespace shardstream::pipeline {

Crew::Crew(unsigned count, std::function<void(unsigned)> work) : work_(std::move(work)) {
  try {
    for (unsigned i = 0; i < count; ++i) {
      threads_.emplace_back([this, i] { serve(i); });
    }
  } catch (...) {
    end();
    throw;
  }
}

Crew::~Crew() {
  end();
}

void Crew::start() {
  {
    const std::lock_guard lock(mutex_);
    expect(working_ == 0, "a crew is started when it has no work");
    working_ = static_cast<unsigned>(threads_.size());
    ++starts_;
  }
  changed_.notify_all();
}

void Crew::wait() noexcept {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return working_ == 0; });
}

void Crew::serve(unsigned number) {
  std::unique_lock lock(mutex_);
  for (std::uint64_t done = 0;; ++done) {
    changed_.wait(lock, [&] { return ends_ || starts_ > done; });
    if (starts_ == done) return;
    lock.unlock();
    work_(number);
    lock.lock();
    if (--working_ == 0) changed_.notify_all();
  }
}

void Crew::end() noexcept {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

}  // namespace shardstream::pipeline
