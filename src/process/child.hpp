// A child process that leaves nothing behind. A supervisor, a forked copy of this process, stands
// between this process and the program. If this process is killed, even by SIGKILL, the supervisor
// notices that a socket closes, and ends all descendants of the program. This works without help
// from the program, which may be a script that starts others in the background.
//
//   this process --socket--> supervisor --> program --> ... --> all processes on this host
//
// Ranks on other hosts are ended by their launcher, which the supervisor ends.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/descriptor.hpp"

namespace shardstream::process {

struct Program {
  std::filesystem::path path;            ///< see find_program()
  std::vector<std::string> words;        ///< the name of the program and its arguments
  std::vector<std::string> environment;  ///< NAME=value
  /// The remedy if the program cannot be executed: the end of a message.
  std::string remedy = "check its permissions and its interpreter";
};

/// The path of `program` in PATH, or nothing if there is none. A name with a slash is a path
/// itself.
std::optional<std::filesystem::path> find_program(const std::string& program);

/// The descriptors of the program; the caller keeps them open.
struct Streams {
  int in = -1;  ///< -1: /dev/null
  int out, err;
};

class Child {
 public:
  /// Starts the program in its own process group. Neither the supervisor nor the program has other
  /// descriptors of this process than `streams`; the supervisor keeps these open until it ends.
  /// This process must have a single thread. All processes that it has started before may become
  /// part of the child if the supervisor is killed. Throws Error if no process can be started; if
  /// only the program cannot be executed, `streams.err` receives the reason, and code() is 126.
  Child(const Program& program, const Streams& streams);
  /// Ends the child like end(), since it closes the socket. Does not wait.
  ~Child() = default;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Becomes readable when receive() has news.
  int descriptor() const { return socket_.get(); }
  /// Call it if descriptor() is readable.
  void receive();

  /// The exit code of the program after it has ended, or 128 + N after signal N.
  const std::optional<int>& code() const { return code_; }
  /// Whether no process of the child is left. This is later than the end of the program if it has
  /// left processes running, since these are ended first.
  bool is_over() const { return pid_ == 0; }
  /// Whether SIGTERM was not enough to end the child. Valid if is_over().
  bool has_killed() const { return has_killed_; }

  /// Asks the supervisor to end the child: SIGTERM to all its processes and, after `grace`,
  /// SIGKILL.
  void end();

 private:
  pid_t pid_ = 0;
  Descriptor socket_;
  std::optional<int> code_;
  bool has_killed_ = false;
};

}  // namespace shardstream::process
