// The processes that descend from this one, and how to end them. Process groups cannot do this: a
// launcher may be a script, and the ranks of an MPI launcher have groups of their own.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <vector>

namespace shardstream::process {

/// The time that processes have after SIGTERM: ranks remove their part files, and MPI launchers end
/// their ranks, also on other hosts.
inline constexpr std::chrono::seconds grace{5};

/// From now on, a descendant whose parent ends becomes a child of this process, so that none is
/// lost. Also makes wait() work if this process was started with SIGCHLD ignored.
void adopt_orphans();

/// The processes that descend from this one.
std::vector<pid_t> descendants();

/// Receives a child that has ended, and its status as waitpid(2) returns it.
using OnReaped = std::function<void(pid_t, int)>;

/// Reaps all children that have ended. Does not block. Returns false if there are no other
/// children; after adopt_orphans(), then there are no descendants either.
bool reap(const OnReaped& on_reaped);

/// Sends SIGTERM to every descendant, and SIGKILL after `grace`. Returns when none is left; true if
/// SIGKILL was necessary. Requires adopt_orphans().
bool end_descendants(const OnReaped& on_reaped);

}  // namespace shardstream::process
