// The command that starts a run on a number of ranks, and the environment of the run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scale/launch/words.hpp"
#include "scale/scale_options.hpp"

namespace shardstream::scale {

/// The launcher of this study.
class Launcher {
 public:
  /// Chooses the launcher from the request and the environment. Throws UsageError if the template
  /// is empty, or has an unknown key or an open quote.
  explicit Launcher(const StudyRequest& request);

  /// The words of the command before the name of the program to launch; none if scale.launcher is
  /// none.
  std::vector<std::string> words(std::uint64_t ranks) const;
  /// The values of {ranks}, {nodes}, {per-node} and {cpus}.
  Keys keys(std::uint64_t ranks) const;
  /// Whether there is no launcher, so that a launch starts one process.
  bool is_none() const { return is_none_; }
  /// Throws UsageError if `ranks` ranks cannot be started here: if the launcher is not installed,
  /// if Open MPI does not start as root, or if this Slurm job has fewer tasks and
  /// scale.oversubscribe is false.
  void check(std::uint64_t ranks) const;
  /// A sentence if the launcher would not start `ranks` ranks here: that of check() if this Slurm
  /// job has fewer tasks, or one about the cores of this host, which limit Open MPI's mpirun
  /// outside a job. Else empty.
  std::string warning(std::uint64_t ranks) const;
  std::uint64_t ranks_on_node(std::uint64_t ranks) const;
  /// The source of the ranks per node. Empty if it is unknown, since a launcher outside a Slurm job
  /// decides itself; ranks_on_node() then assumes one node.
  const std::string& why_per_node() const { return why_per_node_; }
  const std::string& text() const { return template_; }

 private:
  std::string shortage(std::uint64_t ranks) const;

  std::string template_, why_per_node_;
  bool is_none_;
  std::uint64_t per_node_, cpus_;
  std::uint64_t tasks_ = 0;  ///< of the Slurm job; 0: no known limit
  std::uint64_t cores_ = 0;  ///< of this host, if they limit mpirun; 0: no known limit
};

/// Throws UsageError if a launcher has started several copies of this process, since `scale` starts
/// the ranks itself.
void reject_many_copies();

/// The environment of the runs: `environment` without the launcher's variables for a rank, without
/// the job's number of restarts (the launches of a requeued study do not resume), and without
/// SHARDSTREAM_*, which the study has already converted to options.
std::vector<std::string> environment_of_runs(const char* const* environment);

}  // namespace shardstream::scale
