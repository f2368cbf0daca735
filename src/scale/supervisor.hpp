// A small process between this one and a launch, which leaves nothing of the launch behind. If this
// process is killed, even by SIGKILL, the supervisor notices that a socket closes, and ends all
// descendants of the launcher. This works without help from the launcher, so it may be a script
// that starts mpirun in the background.
//
//   this process --socket--> supervisor --> launcher --> ... --> ranks on this host
//
// Ranks on other hosts are ended by their launcher, which the supervisor ends.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/descriptor.hpp"

namespace shardstream::scale {

struct Program {
  std::filesystem::path path;
  std::vector<std::string> words;        ///< the name of the program and its arguments
  std::vector<std::string> environment;  ///< NAME=value
};

class Supervisor {
 public:
  /// Starts the program in its own process group, with /dev/null as standard input and `log` as
  /// standard output and standard error. Neither the supervisor nor the program has other
  /// descriptors of this process. This process must have a single thread, and must have called
  /// adopt_orphans(). Throws Error if no process can be started; if only the program cannot be
  /// executed, the log says why.
  Supervisor(const Program& program, const Descriptor& log);
  /// Ends the launch like end(), since it closes the socket. Does not wait.
  ~Supervisor() = default;
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Becomes readable when receive() has news.
  int descriptor() const { return socket_.get(); }
  /// Call it if descriptor() is readable.
  void receive();

  /// The exit code of the program after it has ended, or 128 + N after signal N.
  const std::optional<int>& code() const { return code_; }
  /// Whether the launch has no process left. This is later than the end of the program if it has
  /// left processes running, since these are ended first.
  bool is_over() const { return pid_ == 0; }
  /// Whether SIGTERM was not enough to end the launch. Valid if is_over().
  bool has_killed() const { return has_killed_; }

  /// Asks the supervisor to end the launch: SIGTERM to all its processes and, after `grace`,
  /// SIGKILL.
  void end();

 private:
  pid_t pid_ = 0;
  Descriptor socket_;
  std::optional<int> code_;
  bool has_killed_ = false;
};

}  // namespace shardstream::scale
