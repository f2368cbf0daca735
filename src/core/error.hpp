// Errors that reach the user, and the exit codes they end in. A message is one sentence that
// names the value at fault and the remedy; only main() prints it and ends the process.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace shardstream {

/// What the process returns. The numbers are part of the command-line interface.
enum class ExitCode : int {
  done = 0,
  failed = 1,        ///< something went wrong after work had started
  usage = 2,         ///< seen before any work started: mend the command or the input
  unverified = 3,    ///< the result did not pass its own verification
  unclear = 4,       ///< `compare` could not tell
  slower = 5,        ///< `compare` found the new run slower
  checkpointed = 75  ///< stopped at a checkpoint: submit again
};

/// Work had started and could not be finished.
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

/// The command or its input cannot work as given; nothing has been done yet.
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

/// A broken promise between two functions of this program: a defect here, not the user's.
class ContractError : public Error {
 public:
  explicit ContractError(const std::string& message,
                         std::source_location where = std::source_location::current())
      : Error("internal error: " + message, where) {}
};

/// Throws ContractError unless `holds`. `promise` says what should have held.
inline void expect(bool holds, const char* promise,
                   std::source_location where = std::source_location::current()) {
  if (!holds) throw ContractError(promise, where);
}

}  // namespace shardstream
