// The progress of this rank, which its threads report so that the watchdog can tell whether the
// rank hangs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>

namespace shardstream::ranks {

/// The state of a rank at one moment.
struct Pulse {
  std::string phase = "start";
  std::string step;         ///< "batch 17"; empty before the first step of the phase
  std::uint64_t moves = 0;  ///< changes whenever the rank makes progress
  bool waiting = false;     ///< whether the rank waits for other ranks
};

/// Thread-safe. A new phase, a new step, and the begin and the end of a wait count as progress.
class Heartbeat {
 public:
  Heartbeat() = default;
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  void enter(std::string_view phase);

  /// Reports that the phase has reached "`what` `number`", such as batch 17. Cheap. `what` must
  /// live as long as the program.
  void step(const char* what, std::uint64_t number) {
    number_.store(number, std::memory_order_relaxed);
    what_.store(what, std::memory_order_relaxed);
    move();
  }
  /// Reports progress that is too small for a step. Cheap.
  void move() { moves_.fetch_add(1, std::memory_order_relaxed); }

  /// While an object of this class lives, this rank waits for other ranks, so the watchdog does not
  /// take it for the hanging one.
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

  /// While an object of this class lives, stop_all() calls `stop` from another thread. `stop` ends
  /// work that would keep a hanging process from ending, such as transfers of a library.
  class AtHang {
   public:
    AtHang(Heartbeat& heartbeat, std::function<void()> stop);
    /// Waits for a running stop_all().
    ~AtHang();
    AtHang(const AtHang&) = delete;
    AtHang& operator=(const AtHang&) = delete;

   private:
    Heartbeat& heartbeat_;
    std::list<std::function<void()>>::iterator place_;
  };

  /// Calls `stop` of every AtHang. The process must end afterwards.
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

}  // namespace shardstream::ranks
