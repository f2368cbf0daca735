// Runs a command in its own process group and leaves no process behind, even if the command hangs
// or if this program is interrupted or killed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "scale/launch/interrupts.hpp"

namespace shardstream::scale {

struct Command {
  std::vector<std::string> words;        ///< the program, found in PATH, and its arguments
  std::vector<std::string> environment;  ///< NAME=value
  std::filesystem::path log;             ///< file for standard output and standard error
  double timeout = 0;                    ///< seconds
};

/// The outcome of a command.
struct Ended {
  int code = 0;  ///< the exit code; 128 + N after signal N
  bool timed_out = false;
  bool interrupted = false;           ///< ended because of StopRequest::now
  bool killed = false;                ///< SIGTERM was not enough to end all its processes
  double timeout = 0;                 ///< that of the command, in seconds
  double seconds = 0;                 ///< from start to end
  double utc_start = 0, utc_end = 0;  ///< seconds since 1970
};

/// Runs `command` with /dev/null as standard input until it ends, its timeout passes, or a signal
/// requests to stop now. Then ends all processes that it has left running, with SIGTERM and, after
/// a grace period, SIGKILL. If this process is killed meanwhile, the same happens. Throws Error if
/// the command cannot be started, or if the kernel does not end its processes.
Ended run(const Command& command, Interrupts::Deferral& signals);

/// The path of `program` in PATH, or nothing if there is none. A name with a slash is a path
/// itself.
std::optional<std::filesystem::path> find_program(const std::string& program);

}  // namespace shardstream::scale
