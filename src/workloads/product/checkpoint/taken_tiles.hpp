// What a product takes over from an earlier run that was interrupted.
#pragma once

#include <string>
#include <vector>

#include "core/log.hpp"
#include "io/checkpoint.hpp"
#include "io/dataset_file.hpp"
#include "launch/session.hpp"
#include "workloads/product/checkpoint/finished_tile.hpp"
#include "workloads/product/operands.hpp"
#include "workloads/product/plan/plan.hpp"

namespace shardstream::workloads {

/// Writes to `to` (null: C is not stored) the super-tiles of which `earlier` has every tile, with
/// `threads` threads, adds these tiles to the journal and takes the super-tiles out of the plan, on
/// all ranks alike. First rank 0 logs how many tiles these are. Tiles whose elements are not what
/// their checksum says stay in the plan. Returns this rank's tiles; if C is stored, their norms
/// come from its elements. Collective; throws AgreedError if they cannot be written.
std::vector<FinishedTile> take_over(const launch::Session& session, const GemmOperands& operands,
                                    const io::Checkpoint& earlier, const io::RangeWriter* to,
                                    io::Journal& journal, Log& log, unsigned threads,
                                    GemmPlan& plan);

/// How many tiles of `earlier` a run keeps whose ranks have `plans`, if all are as they were
/// stored.
std::uint64_t count_kept(const std::vector<GemmPlan>& plans, const io::Checkpoint& earlier);

/// The sentence that says so.
std::string kept_tiles(std::uint64_t kept, std::uint64_t finished);

}  // namespace shardstream::workloads
