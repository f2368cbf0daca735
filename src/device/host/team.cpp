#include "device/host/team.hpp"

namespace shardstream::device::host {

Team::Team(unsigned size) {
  try {
    for (unsigned part = 1; part < size; ++part) {
      threads_.emplace_back([this, part] { work(part); });
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

void Team::run(const std::function<void(unsigned, unsigned)>& part) {
  std::lock_guard turn(turn_);
  {
    std::lock_guard lock(mutex_);
    part_ = &part;
    error_ = nullptr;
    busy_ = static_cast<unsigned>(threads_.size());
    ++round_;
  }
  start_.notify_all();
  call(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
  if (error_) std::rethrow_exception(error_);
}

void Team::work(unsigned part) {
  unsigned long seen = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
    }
    call(part);
    std::lock_guard lock(mutex_);
    if (--busy_ == 0) done_.notify_one();
  }
}

void Team::call(unsigned part) {
  try {
    (*part_)(part, size());
  } catch (...) {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

}  // namespace shardstream::device::host
