// Names the rank that hangs or has died, and ends the job, which would else wait for it for ever.
#pragma once

#include <memory>

#include "core/log.hpp"
#include "ranks/session.hpp"

namespace shardstream::watchdog {

/// A thread a rank that never calls MPI. Every rank tells rank 0 over TCP how its heartbeat stands,
/// about once a second; rank 0 tells the others its own. When no rank has moved for `timeout`
/// seconds, or when a rank's connection ends and it has not said why, one rank says who is at
/// fault, and all stop what each Heartbeat::AtHang names and end with exit code 1. A rank that does
/// not run any more is killed by those of its host. The time that this process itself did not run
/// (a suspended job) does not count. Also makes SIGTERM, SIGINT and SIGHUP leave time for last
/// words (ranks::RemoveOnSignal).
///
/// Where the ranks cannot reach one another, rank 0 warns and nothing is watched.
class Watchdog {
 public:
  /// Collective. Session and log must outlive it. One a process. Throws AgreedError if a rank
  /// cannot start its thread.
  Watchdog(const ranks::Session& session, double timeout, Log& log);
  /// Says goodbye to the other ranks. Whoever goes is no longer watched: meet in a barrier before.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Called before this rank ends the job by an error that it prints itself: no rank will take it
  /// for a dead one. Does not return if the error comes of another rank's end: the watchdog then
  /// ends the process.
  void stand_down();

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace shardstream::watchdog
