// A host device with one fault: it leaves out one wait. If this wait is needed, the schedule has a
// data race, which ThreadSanitizer detects unless the two threads are ordered by chance. So the
// stream that should have been waited for is slowed down.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "device/host/host_device.hpp"
#include "support/forwarding_device.hpp"
#include "support/forwarding_stream.hpp"

namespace shardstream::test {

/// The waiting stream, numbered in the order of creation; a thread has the last number.
enum class Waiter { stream0, stream1, stream2, thread };
inline constexpr int no_stream = -1;

/// One wait of a run: wait number `number` of `waiter` for stream `signaller`. Waits for events
/// that were never recorded do not count.
struct Wait {
  Waiter waiter = Waiter::thread;
  int signaller = no_stream;
  int number = -1;

  bool operator==(const Wait&) const = default;
};

/// Counts the waits and knows the one to leave out, whose signaller is delayed before each piece of
/// its work. All streams and events of a device share it.
class Plan {
 public:
  explicit Plan(Wait fault) : fault_(fault) {}

  /// Whether this wait is the one to leave out.
  bool leaves_out(Waiter waiter, int signaller) {
    if (!armed_ || signaller == no_stream) return false;
    std::lock_guard lock(mutex_);
    const auto number = std::ranges::count_if(met_, [&](const Wait& wait) {
      return wait.waiter == waiter && wait.signaller == signaller;
    });
    met_.push_back({waiter, signaller, static_cast<int>(number)});
    return met_.back() == fault_;
  }
  bool slow(int stream) const { return armed_ && stream == fault_.signaller; }
  void arm(bool armed) { armed_ = armed; }
  const std::vector<Wait>& met() const { return met_; }
  bool met_fault() const { return std::ranges::find(met_, fault_) != met_.end(); }

 private:
  Wait fault_;
  std::atomic<bool> armed_{false};
  std::mutex mutex_;
  std::vector<Wait> met_;
};

class FaultyEvent final : public device::Event {
 public:
  FaultyEvent(std::unique_ptr<device::Event> inner, Plan& plan)
      : inner_(std::move(inner)), plan_(plan) {}

  void synchronize() override {
    if (!plan_.leaves_out(Waiter::thread, signaller)) inner_->synchronize();
  }
  bool reached() const override { return inner_->reached(); }
  double seconds_since(const device::Event& start) const override {
    return inner_->seconds_since(*static_cast<const FaultyEvent&>(start).inner_);
  }
  device::Event& inner() const { return *inner_; }

  std::atomic<int> signaller = no_stream;

 private:
  std::unique_ptr<device::Event> inner_;
  Plan& plan_;
};

class FaultyStream final : public ForwardingStream {
 public:
  FaultyStream(std::unique_ptr<device::Stream> inner, Plan& plan, int number)
      : ForwardingStream(std::move(inner)), plan_(plan), number_(number) {}

  void upload(void* device, const void* host, std::size_t bytes) override {
    delay();
    ForwardingStream::upload(device, host, bytes);
  }
  void upload_rows(void* device, std::size_t pitch, const void* host, std::size_t row_bytes,
                   std::size_t rows) override {
    delay();
    ForwardingStream::upload_rows(device, pitch, host, row_bytes, rows);
  }
  void download(void* host, const void* device, std::size_t bytes) override {
    delay();
    ForwardingStream::download(host, device, bytes);
  }
  void record(device::Event& event) override {
    auto& faulty = static_cast<FaultyEvent&>(event);
    faulty.signaller = number_;
    ForwardingStream::record(faulty.inner());
  }
  void wait(const device::Event& event) override {
    const auto& faulty = static_cast<const FaultyEvent&>(event);
    if (!plan_.leaves_out(static_cast<Waiter>(number_), faulty.signaller)) {
      ForwardingStream::wait(faulty.inner());
    }
  }
  void synchronize() override {
    if (!plan_.leaves_out(Waiter::thread, number_)) ForwardingStream::synchronize();
  }

 protected:
  void launch_erased(const device::KernelLaunch& launch) override {
    delay();
    ForwardingStream::launch_erased(launch);
  }

 private:
  /// A large copy in this stream's own memory, which orders nothing else.
  void delay() {
    if (!plan_.slow(number_)) return;
    from_.resize(delay_bytes);
    to_.resize(delay_bytes);
    inner().upload(to_.data(), from_.data(), delay_bytes);
  }

  static constexpr std::size_t delay_bytes = std::size_t{1} << 22;
  Plan& plan_;
  int number_;
  std::vector<std::byte> from_, to_;
};

class FaultyDevice final : public ForwardingDevice {
 public:
  explicit FaultyDevice(Wait fault)
      : ForwardingDevice(device::host::make_device(2)), plan_(fault) {}

  std::unique_ptr<device::Stream> make_stream(device::Priority priority) override {
    return std::make_unique<FaultyStream>(ForwardingDevice::make_stream(priority), plan_,
                                          streams_++);
  }
  std::unique_ptr<device::Event> make_event() override {
    return std::make_unique<FaultyEvent>(ForwardingDevice::make_event(), plan_);
  }
  std::unique_ptr<device::Event> make_timed_event() override {
    return std::make_unique<FaultyEvent>(ForwardingDevice::make_timed_event(), plan_);
  }
  Plan& plan() { return plan_; }

 private:
  Plan plan_;
  int streams_ = 0;
};

}  // namespace shardstream::test
