// Runs a command in its own process group and leaves no process behind, even if the command hangs
// or if this program is interrupted or killed.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/descriptor.hpp"

namespace shardstream::scale {

/// While an object of this class lives, SIGINT, SIGTERM, SIGHUP and SIGUSR1 do not end the process.
/// There may be one object per process, in a process with a single thread.
class Interrupts {
 public:
  enum class Request {
    none,
    stop_after_point,  ///< SIGUSR1, and SIGTERM in a Slurm job: the warning of a queue
    stop_now,          ///< SIGINT, SIGHUP, SIGTERM, or a second signal
  };

  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// The strongest request so far.
  Request request();

 private:
  Descriptor signals_;
  Request request_ = Request::none;
};

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
  bool interrupted = false;           ///< ended because of Interrupts::Request::stop_now
  double seconds = 0;                 ///< from start to end
  double utc_start = 0, utc_end = 0;  ///< seconds since 1970
};

/// Runs `command` with /dev/null as standard input until it ends, its timeout passes, or a signal
/// requests to stop now. Then ends all processes that it has left running, with SIGTERM and, after
/// a grace period, SIGKILL. Throws Error if the command cannot be started.
Ended run(const Command& command, Interrupts& interrupts);

/// The path of `program` in PATH, or nothing if there is none. A name with a slash is a path
/// itself.
std::optional<std::filesystem::path> find_program(const std::string& program);

}  // namespace shardstream::scale
