// What interrupted runs have left for this one, and the journal that this one leaves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/log.hpp"
#include "core/options.hpp"
#include "io/output/checkpoint.hpp"
#include "io/output/dataset_file.hpp"
#include "launch/session.hpp"
#include "run/output.hpp"
#include "workloads/workload.hpp"

namespace shardstream::run {

/// This rank's journal of the run, and what earlier runs have left.
class Resumption {
 public:
  /// Finds what there is to resume from, or removes it if output.resume is never. The session and
  /// the log must outlive it. Throws AgreedError if another run is writing the result. Collective.
  Resumption(const launch::Session& session, const Options& options,
             const std::filesystem::path& path, Log& log);

  /// What the workload gets. `matrix` is where its output goes, null if it is not stored; it and
  /// `output` must outlive the run. To be called once.
  workloads::Resume begin(Output& output, const std::string& uuid, const io::RangeWriter* matrix);

  /// How many runs one after the other have led to this one, which has resumed from the last; after
  /// begin().
  std::uint64_t restarts() const { return journal_->restarts(); }

  /// Once a result is published: nobody needs what earlier runs have left, nor those whose ranks
  /// have ended since this one began. On rank 0.
  void remove_earlier();

 private:
  void take_over();
  void find_earlier_runs();

  const launch::Session& session_;
  std::filesystem::path path_;
  Log& log_;
  const io::RangeWriter* matrix_ = nullptr;
  std::optional<io::EarlierRuns> earlier_runs_;  // on rank 0
  std::optional<io::Checkpoint> earlier_;
  std::optional<io::Journal> journal_;
};

}  // namespace shardstream::run
