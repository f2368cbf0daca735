// Helper processes of an experiment: this program, started again, so that several processes use one
// GPU. The experiment sends commands to its helpers and receives their answers, one line each. A
// helper never outlives the experiment.
//
// process::Child does not fit here: it forks a supervisor, which needs a process with a single
// thread, but MPI and CUDA have threads. Helpers are started by posix_spawn() instead, which runs
// no code of this process in the child.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "ranks/heartbeat.hpp"

namespace shardstream::experiments {

struct Experiment;

/// The command line that starts a helper is `shardstream bench-helper NAME`. It is internal: help
/// texts do not show it.
inline constexpr std::string_view helper_command = "bench-helper";

/// A program that runs as a helper.
struct HelperProgram {
  std::filesystem::path path;
  std::vector<std::string> words;        ///< its name and arguments
  std::vector<std::string> environment;  ///< NAME=value
};

/// This program as a helper of `experiment`, which must have a function `helper`. Its environment
/// is `environment` (with a null pointer at the end) without the variables of an MPI launcher, and
/// with `changes` (NAME=value).
HelperProgram this_program(std::string_view experiment, const char* const* environment,
                           const std::vector<std::string>& changes);

/// Whether the compute mode of a GPU (device::GpuFacts) permits a second process on it. An unknown
/// mode, the empty text, does.
inline bool permits_second_process(std::string_view compute_mode) {
  return compute_mode.empty() || compute_mode == "default";
}

/// The side of the experiment: starts helpers and ends them. Not thread-safe. The thread that makes
/// it must outlive it, since Linux ends the helpers with that thread.
class Helpers {
 public:
  /// Starts `count` helpers. `heartbeat` moves while this process waits for their answers. Throws
  /// Error if a process cannot be started.
  Helpers(const HelperProgram& program, std::size_t count, ranks::Heartbeat& heartbeat);
  /// Closes the connections, and kills helpers that have not ended a second later.
  ~Helpers();
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

  std::size_t size() const { return helpers_.size(); }

  /// Sends the line `command` to the first `count` helpers. Returns their answers, in the order of
  /// the helpers. Throws Error if one of them has ended, reports an error, or has not answered
  /// after `seconds`.
  std::vector<std::string> ask(std::size_t count, const std::string& command, double seconds);

 private:
  class Helper;

  std::vector<std::unique_ptr<Helper>> helpers_;
  ranks::Heartbeat& heartbeat_;
};

/// The side of a helper. There may be one object per process.
class HelperEnd {
 public:
  /// From now on, this process ends when the other side closes the connection, even while it waits
  /// for the GPU, and when the thread that has started it ends. Closes inherited descriptors.
  /// Throws UsageError if no experiment has started this process.
  HelperEnd();
  HelperEnd(const HelperEnd&) = delete;
  HelperEnd& operator=(const HelperEnd&) = delete;

  /// Answers each command with the line that `answer` returns, until the connection is closed. Then
  /// the process ends, so that this function only returns by an exception of `answer`.
  [[noreturn]] void serve(const std::function<std::string(const std::string& command)>& answer);
  /// Reports an error to the experiment, instead of an answer.
  void report(std::string_view message);

 private:
  std::string receive();

  std::string received_;
};

/// The line "3 1 4", for commands and answers of numbers.
std::string line_of(const std::vector<std::uint64_t>& numbers);
/// The numbers of such a line. Throws Error for any other text.
std::vector<std::uint64_t> numbers_of(std::string_view line);

/// Runs this process as a helper of `experiment`. Reports an error to the experiment and returns
/// its exit code. Throws UsageError if the experiment has no helpers, or has not started this
/// process.
ExitCode run_as_helper(const Experiment& experiment);

}  // namespace shardstream::experiments
