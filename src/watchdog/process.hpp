// Identifies processes of this host, and runs work that may hang while a process ends.
#pragma once

#include <functional>
#include <string>

namespace shardstream::watchdog {

/// Text that distinguishes a process from every earlier and later process with the same number: its
/// PID namespace and its start time. Empty if they are unknown.
std::string process_identity(long pid);

/// Runs `work` in a thread of its own and waits for it for at most `seconds`, since anything may
/// hang when a process is about to end. If no thread can be started, the caller runs it. Exceptions
/// of `work` are ignored: the process ends, and the cause is already printed.
void try_for(double seconds, std::function<void()> work);

}  // namespace shardstream::watchdog
