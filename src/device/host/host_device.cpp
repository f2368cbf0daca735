#include "device/host/host_device.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <fstream>
#include <mutex>
#include <thread>

#include "core/error.hpp"
#include "core/text.hpp"
#include "device/host/process_memory.hpp"
#include "device/host/team.hpp"

namespace shardstream::device::host {
namespace {

using Clock = std::chrono::steady_clock;

/// The state that an event shares with queued work, which may outlive the event.
struct EventState {
  std::mutex mutex;
  std::condition_variable reached;
  std::uint64_t recorded = 0;   // number of calls of record()
  std::uint64_t completed = 0;  // the latest call whose point has been reached
  Clock::time_point time;

  void wait_for(std::uint64_t point) {
    std::unique_lock lock(mutex);
    reached.wait(lock, [&] { return completed >= point; });
  }
};

class HostEvent final : public Event {
 public:
  explicit HostEvent(bool timed) : timed_(timed) {}

  void synchronize() override { state_->wait_for(latest()); }
  bool reached() const override {
    std::lock_guard lock(state_->mutex);
    return state_->completed >= state_->recorded;
  }
  double seconds_since(const Event& start) const override {
    const auto& begin = static_cast<const HostEvent&>(start);
    expect(timed_ && begin.timed_, "both events are timed events");
    const auto& from = *begin.state_;
    std::scoped_lock lock(state_->mutex);
    return std::chrono::duration<double>(state_->time - from.time).count();
  }
  std::uint64_t latest() const {
    std::lock_guard lock(state_->mutex);
    return state_->recorded;
  }
  const std::shared_ptr<EventState>& state() const { return state_; }

 private:
  bool timed_;
  std::shared_ptr<EventState> state_ = std::make_shared<EventState>();
};

/// The first error of any stream, which then becomes an error of every stream, as with CUDA.
class StickyError {
 public:
  /// Relaxed, since this check must not order the streams: ThreadSanitizer would not find a missing
  /// wait then.
  bool happened() const { return happened_.load(std::memory_order_relaxed); }
  void keep(std::exception_ptr error) {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    happened_.store(true, std::memory_order_relaxed);
  }
  void rethrow() {
    if (!happened()) return;
    std::lock_guard lock(mutex_);
    std::rethrow_exception(error_);
  }

 private:
  std::atomic<bool> happened_ = false;
  std::mutex mutex_;
  std::exception_ptr error_;
};

class HostStream final : public Stream {
 public:
  HostStream(Team& team, StickyError& error)
      : team_(team),
        error_(error),
        copiers_(std::clamp(team.size() / cpus_a_copier, 1U, max_copiers)),
        thread_([this] { work(); }) {}

  ~HostStream() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void upload(void* device, const void* host, std::size_t bytes) override {
    enqueue([=, this] { copy(device, 0, host, bytes, 1); });
  }
  void upload_rows(void* device, std::size_t pitch, const void* host, std::size_t row_bytes,
                   std::size_t rows) override {
    enqueue([=, this] { copy(device, pitch, host, row_bytes, rows); });
  }
  void download(void* host, const void* device, std::size_t bytes) override {
    enqueue([=, this] { copy(host, 0, device, bytes, 1); });
  }

  // Events are recorded and waited for even after an error, so that no thread blocks for ever.
  void record(Event& event) override {
    auto state = static_cast<HostEvent&>(event).state();
    std::uint64_t point = 0;
    {
      std::lock_guard lock(state->mutex);
      point = ++state->recorded;
    }
    enqueue(
        [state, point] {
          std::lock_guard lock(state->mutex);
          state->completed = std::max(state->completed, point);
          state->time = Clock::now();
          state->reached.notify_all();
        },
        Always{true});
  }
  void wait(const Event& event) override {
    const auto& waited = static_cast<const HostEvent&>(event);
    enqueue([state = waited.state(), point = waited.latest()] { state->wait_for(point); },
            Always{true});
  }

  void synchronize() override {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
    }
    error_.rethrow();
  }

 protected:
  void launch_erased(const KernelLaunch& launch) override {
    // The kernel and its arguments are trivially copyable. They are copied, since the caller's
    // objects may be destroyed before the work runs.
    enqueue([this, host = launch.host, kernel = copy_of(launch.kernel, launch.kernel_size),
             args = copy_of(launch.args, launch.args_size)] {
      team_.run(
          [&](unsigned part, unsigned parts) { host(kernel.get(), args.get(), part, parts); });
    });
  }

 private:
  enum class Always : bool {};
  struct Task {
    std::function<void()> call;
    Always always;
  };

  /// operator new aligns to 16 bytes, which suffices for every struct of arguments.
  static std::shared_ptr<std::byte[]> copy_of(const void* data, std::size_t size) {
    std::shared_ptr<std::byte[]> copy(new std::byte[size]);
    std::memcpy(copy.get(), data, size);
    return copy;
  }

  void enqueue(std::function<void()> call, Always always = Always{false}) {
    {
      std::lock_guard lock(mutex_);
      queue_.push_back({std::move(call), always});
    }
    changed_.notify_all();
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const Task task = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      try {
        if (task.always == Always{true} || !error_.happened()) task.call();
      } catch (...) {
        error_.keep(std::current_exception());
      }
      lock.lock();
      busy_ = false;
      if (queue_.empty()) changed_.notify_all();
    }
  }

  /// Copies dense rows to rows with a pitch. Divides large copies among threads, since one thread
  /// reaches a quarter of a link's rate.
  void copy(void* to, std::size_t pitch, const void* from, std::size_t row_bytes,
            std::size_t rows) {
    constexpr std::size_t single_thread_bytes = std::size_t{1} << 18;
    const std::size_t bytes = row_bytes * rows;
    if (bytes == 0) return;
    const auto some = [&](std::size_t at, std::size_t end) {
      while (at < end) {
        const std::size_t row = at / row_bytes, in_row = at % row_bytes;
        const std::size_t width = std::min(row_bytes - in_row, end - at);
        std::memcpy(static_cast<std::byte*>(to) + row * pitch + in_row,
                    static_cast<const std::byte*>(from) + at, width);
        at += width;
      }
    };
    if (bytes <= single_thread_bytes) return some(0, bytes);
    copiers_.run([&](unsigned part, unsigned parts) {
      some(bytes * part / parts, bytes * (part + 1) / parts);
    });
  }

  /// Readers and kernels keep few CPUs busy. To wake another thread then takes longer than a copy.
  static constexpr unsigned max_copiers = 4, cpus_a_copier = 4;

  Team& team_;
  StickyError& error_;
  Team copiers_;  // not shared, so that only events order the streams
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> queue_;
  bool busy_ = false, stop_ = false;
  std::thread thread_;  // the last member, since it uses the others
};

class HostDevice final : public Device {
 public:
  explicit HostDevice(unsigned threads) : team_(threads) {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    info_.backend = "host";
    info_.name = processor_name();
    info_.multiprocessors = static_cast<int>(threads);
    info_.memory_total = page * static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
    info_.memory_free = available_memory();
  }

  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Stream> make_stream(Priority) override {
    return std::make_unique<HostStream>(team_, error_);
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<HostEvent>(false); }
  std::unique_ptr<Event> make_timed_event() override { return std::make_unique<HostEvent>(true); }
  void* allocate(Memory kind, std::size_t bytes) override {
    void* data = map_pages(bytes);
    if (kind != Memory::untouched) touch_pages(data, bytes, team_.size());
    return data;
  }
  void release(Memory, void* data, std::size_t bytes) noexcept override {
    unmap_pages(data, bytes);
  }

 private:
  Team team_;
  StickyError error_;
  DeviceInfo info_;
};

}  // namespace

std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const auto colon = line.find(':');
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    std::string name(trim(std::string_view(line).substr(colon + 1)));
    const auto blanks = [](char a, char b) { return a == ' ' && b == ' '; };
    name.erase(std::unique(name.begin(), name.end(), blanks), name.end());
    if (!name.empty()) return name;
  }
  return "CPU";
}

std::unique_ptr<Device> make_device(unsigned threads) {
  expect(threads >= 1, "a host device has at least one thread");
  return std::make_unique<HostDevice>(threads);
}

}  // namespace shardstream::device::host
