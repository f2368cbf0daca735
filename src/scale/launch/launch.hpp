// Executes the command of a launch and leaves no process behind, even if it hangs or if this
// program is interrupted or killed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "scale/launch/interrupts.hpp"

namespace shardstream::scale {

/// The command of a launch.
struct LaunchCommand {
  std::vector<std::string> words;        ///< the program, found in PATH, and its arguments
  std::vector<std::string> environment;  ///< NAME=value
  std::filesystem::path output;          ///< file for standard output; it may be the log
  std::filesystem::path log;             ///< file for standard error
  double timeout = 0;                    ///< seconds
};

/// The end of a launch.
struct LaunchEnd {
  int code = 0;  ///< the exit code; 128 + N after signal N
  bool timed_out = false;
  bool interrupted = false;           ///< ended because of StopRequest::now
  bool killed = false;                ///< SIGTERM was not enough to end all its processes
  double timeout = 0;                 ///< that of the command, in seconds
  double seconds = 0;                 ///< from start to end
  double utc_start = 0, utc_end = 0;  ///< seconds since 1970

  /// Whether the command has ended by itself with exit code 0.
  bool succeeded() const { return code == 0 && !timed_out && !interrupted; }
};

/// Runs `command` with /dev/null as standard input until it ends, its timeout passes, or a signal
/// requests to stop now. Then ends all processes that it has left running, with SIGTERM and, after
/// a grace period, SIGKILL. If this process is killed meanwhile, the same happens. Throws Error if
/// the command cannot be started, or if the kernel does not end its processes.
LaunchEnd execute(const LaunchCommand& command, Interrupts::Deferral& signals);

}  // namespace shardstream::scale
