// Names a rank that hangs or has died, and ends the job, which would otherwise wait for it for
// ever.
#pragma once

#include <memory>

#include "core/log.hpp"
#include "ranks/session.hpp"

namespace shardstream::watchdog {

/// A thread per rank that never calls MPI. Every rank reports its heartbeat to rank 0 over TCP
/// about once a second, and rank 0 reports its own to all others. The job is ended in two cases: no
/// rank has made progress for `timeout` seconds, or the connection to a rank has closed although
/// the rank has not announced its end. One rank then prints which rank is at fault. All ranks call
/// Heartbeat::stop_all() and end with exit code 1. A rank that no longer runs is killed by the
/// ranks of its host. Time during which this process itself did not run (a suspended job) does not
/// count. SIGTERM, SIGINT and SIGHUP wait until the message is printed (ranks::RemoveOnSignal).
///
/// If the ranks cannot reach one another, rank 0 warns, and nothing is watched.
class Watchdog {
 public:
  /// Collective. Session and log must outlive it. There is one per process. Throws AgreedError if a
  /// rank cannot start its thread.
  Watchdog(const ranks::Session& session, double timeout, Log& log);
  /// Announces the end to the other ranks, which no longer watch this rank. Call a barrier before.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Call it before this rank ends the job because of an error that it prints itself, so that no
  /// other rank reports it as dead. Does not return if the error is a consequence of another rank's
  /// end: the watchdog then ends the process.
  void stand_down();

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace shardstream::watchdog
