// The checkpoint of interrupted runs that this run resumes from, and the journal that it writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "core/log.hpp"
#include "core/options.hpp"
#include "execution/output.hpp"
#include "io/output/checkpoint.hpp"
#include "io/output/dataset_file.hpp"
#include "ranks/session.hpp"
#include "workloads/workload.hpp"

namespace shardstream::execution {

/// This rank's journal of the run, and the checkpoint of earlier runs.
class Resumption {
 public:
  /// Finds the checkpoint of earlier runs, or removes it if output.resume is never. The session and
  /// the log must outlive it. Throws AgreedError if another run is writing the result. Collective.
  Resumption(const ranks::Session& session, const Options& options,
             const std::filesystem::path& path, Log& log);

  /// Begins this run's journal and returns the argument for the workload. `matrices` are the
  /// writers of its outputs. `matrices` and `output` must outlive the run. Call it once.
  workloads::Resume begin(Output& output, const std::string& uuid,
                          std::span<const io::RangeWriter> matrices);

  /// The number of runs in the chain of which this run is the next one. Call it after begin().
  std::uint64_t restarts() const { return journal_->restarts(); }

  /// Removes the files of all earlier runs, including those that have ended since this run began.
  /// Call it on rank 0 after a result is published.
  void remove_earlier();

 private:
  void take_over();
  void find_earlier_runs();

  const ranks::Session& session_;
  std::filesystem::path path_;
  Log& log_;
  std::span<const io::RangeWriter> matrices_;
  std::optional<io::EarlierRuns> earlier_runs_;  // on rank 0
  std::optional<io::Checkpoint> earlier_;
  std::optional<io::Journal> journal_;
};

}  // namespace shardstream::execution
