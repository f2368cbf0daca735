// What this rank is doing, told as it goes, so that another thread can see whether it still moves.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>

namespace shardstream::launch {

/// How things stand at one moment.
struct Pulse {
  std::string phase = "start";
  std::string step;         ///< "batch 17"; empty before the phase's first
  std::uint64_t moves = 0;  ///< another number than before: something has moved
  bool waiting = false;     ///< for the other ranks
};

/// Thread-safe. A new phase, a new step, and the begin and the end of a wait are movement.
class Heartbeat {
 public:
  Heartbeat() = default;
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  void enter(std::string_view phase);

  /// The phase has come to `what` number `number`; cheap. `what` must live as long as the program.
  void step(const char* what, std::uint64_t number) {
    number_.store(number, std::memory_order_relaxed);
    what_.store(what, std::memory_order_relaxed);
    move();
  }
  /// Something went on that is too small for a step; cheap.
  void move() { moves_.fetch_add(1, std::memory_order_relaxed); }

  /// While it lives, this rank waits for the others: it is not the one that hangs.
  class Waiting {
   public:
    explicit Waiting(Heartbeat& heartbeat) : heartbeat_(heartbeat) { heartbeat_.wait(1); }
    ~Waiting() { heartbeat_.wait(-1); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    Heartbeat& heartbeat_;
  };
  [[nodiscard]] Waiting waiting() { return Waiting(*this); }

  Pulse pulse() const;

  /// While it lives, stop_all() calls `stop`, from a thread of its own: it ends what would keep a
  /// hanging process from ending (an abort of a library's transfers).
  class AtHang {
   public:
    AtHang(Heartbeat& heartbeat, std::function<void()> stop);
    /// Waits for a stop_all() that is under way.
    ~AtHang();
    AtHang(const AtHang&) = delete;
    AtHang& operator=(const AtHang&) = delete;

   private:
    Heartbeat& heartbeat_;
    std::list<std::function<void()>>::iterator place_;
  };

  /// Calls what each AtHang was given. The process must end afterwards.
  void stop_all();

 private:
  void wait(int change) {
    waits_.fetch_add(change, std::memory_order_relaxed);
    move();
  }

  std::atomic<std::uint64_t> moves_ = 0, number_ = 0;
  std::atomic<const char*> what_ = nullptr;  // null: no step yet
  std::atomic<int> waits_ = 0;
  mutable std::mutex phase_mutex_;
  std::string phase_ = Pulse().phase;
  std::mutex stops_mutex_;
  std::list<std::function<void()>> stops_;
};

}  // namespace shardstream::launch
