// A command in a process group of its own that leaves no process behind: not when it hangs, not
// when this program is interrupted, not when this program is killed.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/descriptor.hpp"

namespace shardstream::scale {

/// While it lives, SIGINT, SIGTERM, SIGHUP and SIGUSR1 are collected instead of ending the process.
/// One a process, on its only thread.
class Interrupts {
 public:
  enum class Wish {
    none,
    stop_after_point,  ///< SIGUSR1, and SIGTERM in a Slurm job: a queue's warning
    stop_now,          ///< SIGINT, SIGHUP, SIGTERM, or a second signal
  };

  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// The strongest wish so far.
  Wish wish();

 private:
  Descriptor signals_;
  Wish wish_ = Wish::none;
};

struct Command {
  std::vector<std::string> words;        ///< the program, searched in PATH, and its arguments
  std::vector<std::string> environment;  ///< NAME=value
  std::filesystem::path log;             ///< gets standard output and standard error
  double timeout = 0;                    ///< seconds
};

/// How a command ended.
struct Ended {
  int code = 0;  ///< the exit code; 128 + N after signal N
  bool timed_out = false;
  bool interrupted = false;           ///< ended because of Interrupts::Wish::stop_now
  double seconds = 0;                 ///< from start to end
  double utc_start = 0, utc_end = 0;  ///< seconds since 1970
};

/// Runs `command` with /dev/null as standard input until it ends, its time is over or the user
/// wishes to stop. Then ends what it has left running: SIGTERM, and SIGKILL after a grace period.
/// Throws Error if it cannot be started.
Ended run(const Command& command, Interrupts& interrupts);

/// Where PATH has `program`; nothing if it has no such program. A name with a slash is that file.
std::optional<std::filesystem::path> find_program(const std::string& program);

}  // namespace shardstream::scale
