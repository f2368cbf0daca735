// The command line that starts a run on so many ranks, and the environment that it gets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scale/options.hpp"

namespace shardstream::scale {

/// How this study starts its runs.
class Launcher {
 public:
  /// Chooses by the request and the environment. Throws UsageError if the template is empty or has
  /// an unknown key.
  explicit Launcher(const Request& request);

  /// The words that come before the program's own.
  std::vector<std::string> words(std::uint64_t ranks) const;
  /// Throws UsageError if so many ranks cannot start here: if the launcher's program is not there,
  /// if Open MPI would not start as root, or if this Slurm job has fewer tasks and
  /// scale.oversubscribe is false.
  void check(std::uint64_t ranks) const;
  std::uint64_t ranks_on_node(std::uint64_t ranks) const;
  const std::string& text() const { return template_; }

 private:
  std::string template_;
  std::uint64_t per_node_, cpus_;
  std::uint64_t tasks_ = 0;  ///< of the Slurm job; 0: no limit is known
};

/// Throws UsageError if a launcher has started this process more than once: `scale` starts the
/// ranks itself.
void reject_many_copies();

/// `environment` for the runs: without the variables by which a launcher tells a process of its
/// rank, without the job's count of restarts (the launches of a requeued study resume nothing), and
/// without SHARDSTREAM_*, which the study has already turned into options.
std::vector<std::string> environment_of_runs(const char* const* environment);

}  // namespace shardstream::scale
