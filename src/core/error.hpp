// Errors that reach the user, and their exit codes. A message is one sentence that names the value
// at fault and the remedy. It is printed once, by main() or by cli::in_session().
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace shardstream {

/// The exit code of the process. The numbers are part of the command-line interface.
enum class ExitCode : int {
  done = 0,
  failed = 1,        ///< an error after work had started
  usage = 2,         ///< an error found before any work started: fix the command or the input
  unverified = 3,    ///< the result did not pass its own verification
  unclear = 4,       ///< `compare` could not tell
  slower = 5,        ///< `compare` found the new run slower
  checkpointed = 75  ///< stopped at a checkpoint: submit again
};

/// An error after work had started.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message,
                 std::source_location where = std::source_location::current())
      : Error(ExitCode::failed, message, where) {}

  ExitCode code() const { return code_; }
  const std::source_location& where() const { return where_; }

 protected:
  Error(ExitCode code, const std::string& message, std::source_location where)
      : std::runtime_error(message), code_(code), where_(where) {}

 private:
  ExitCode code_;
  std::source_location where_;
};

/// An error in the command or its input, found before any work started.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message,
                      std::source_location where = std::source_location::current())
      : Error(ExitCode::usage, message, where) {}
};

/// The work is done, but its result did not pass its own verification.
class Unverified : public Error {
 public:
  explicit Unverified(const std::string& message,
                      std::source_location where = std::source_location::current())
      : Error(ExitCode::unverified, message, where) {}
};

/// A broken contract between two functions: a defect of this program, not an error of the user.
class ContractError : public Error {
 public:
  explicit ContractError(const std::string& message,
                         std::source_location where = std::source_location::current())
      : Error("internal error: " + message, where) {}
};

/// Throws ContractError unless `holds`. `promise` states the condition that should hold.
inline void expect(bool holds, const char* promise,
                   std::source_location where = std::source_location::current()) {
  if (!holds) throw ContractError(promise, where);
}

}  // namespace shardstream
