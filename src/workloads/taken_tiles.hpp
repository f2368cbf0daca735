// What a product takes over from an earlier run that was interrupted.
#pragma once

#include <vector>

#include "io/checkpoint.hpp"
#include "io/dataset_file.hpp"
#include "launch/session.hpp"
#include "workloads/gemm_operands.hpp"
#include "workloads/gemm_plan.hpp"

namespace shardstream::workloads {

/// Writes to `to` (null: C is not stored) what `earlier` has of super-tiles that it has whole, by
/// `threads` threads, adds these tiles to the journal and takes the super-tiles out of the plan, on
/// all ranks alike. Tiles whose elements are not what their checksum says are left in. Returns this
/// rank's tiles. Collective; throws AgreedError where they cannot be written.
std::vector<io::FinishedTile> take_over(const launch::Session& session,
                                        const GemmOperands& operands, const io::Checkpoint& earlier,
                                        const io::RangeWriter* to, io::Journal& journal,
                                        unsigned threads, GemmPlan& plan);

}  // namespace shardstream::workloads
