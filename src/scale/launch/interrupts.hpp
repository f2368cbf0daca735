// The signals that end a study.
#pragma once

#include <chrono>
#include <thread>

#include "core/descriptor.hpp"
#include "core/log.hpp"

namespace shardstream::scale {

/// Whether and when a signal asks a study to end.
enum class StopRequest {
  none,
  after_launch,  ///< SIGUSR1, and SIGTERM in a Slurm job: the warning of a queue
  now,           ///< SIGINT, SIGHUP, SIGTERM, or a second signal
};

/// While an object of this class lives, SIGINT, SIGTERM, SIGHUP and SIGUSR1 end this process at
/// once, whatever it is doing, with ExitCode::checkpointed, unless a Deferral lives. A second
/// thread waits for them, so that calls that block, such as reading from a file server that does
/// not answer, do not delay them. Signals that this process ignores (nohup) stay ignored. There may
/// be one object per process, in a process with a single thread.
class Interrupts {
 public:
  explicit Interrupts(Log& log);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// The strongest request so far. Requests exist only after a Deferral or stop().
  StopRequest request() const { return request_; }
  /// Ends the study like a signal, for another reason.
  void stop() { request_ = StopRequest::now; }

  /// While an object of this class lives, signals do not end the process; they are only noted. The
  /// process has a single thread meanwhile, so that it may fork.
  class Deferral {
   public:
    explicit Deferral(Interrupts& interrupts) : interrupts_(interrupts) { interrupts_.end_watch(); }
    ~Deferral();
    Deferral(const Deferral&) = delete;
    Deferral& operator=(const Deferral&) = delete;

    /// The strongest request so far.
    StopRequest request();
    /// Waits until `descriptor` is readable or closed (then it returns true), a signal has come, or
    /// `time` has passed.
    bool wait(int descriptor, std::chrono::milliseconds time);

   private:
    Interrupts& interrupts_;
  };

 private:
  void begin_watch();
  void end_watch();
  void watch();
  void note();

  Log& log_;
  Descriptor signals_, end_of_watch_;
  StopRequest request_ = StopRequest::none;
  std::thread watcher_;
};

}  // namespace shardstream::scale
