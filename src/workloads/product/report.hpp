// What came of a product: all ranks' verdicts as one, and what is told of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/options.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/engine/tiles.hpp"
#include "workloads/product/limits.hpp"
#include "workloads/product/operands.hpp"
#include "workloads/product/plan/plan.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads {

/// All ranks' verdicts as one, the same on every rank.
struct Agreed {
  std::string failure;  ///< empty: everything agrees
  double worst = 0, detection_threshold = 0, squares = 0;
  std::uint64_t rows = 0;  ///< of all computed tiles, which are checked one by one
  std::uint64_t unchecked = 0, checksum = 0;
  std::uint64_t constant = 0;  ///< variables with zero variance, if data are normalized

  Verification verification() const {
    if (!failure.empty()) return Verification::failed;
    if (unchecked == 0) return Verification::passed;
    return unchecked < rows ? Verification::partly : Verification::impossible;
  }
};

/// `mine` is of this rank's tiles, those included that it took over; `repeatable`: whether its
/// repetitions have made the same of them. Collective.
Agreed agree(const launch::Session& session, const GemmPlan& plan, const GemmVerdict& mine,
             bool repeatable);

/// What a rank did for a product, in each repetition.
struct ProductRun {
  bool computed = false;          ///< else all tiles were taken over, on every rank
  std::uint64_t min_uploads = 0;  ///< bytes that this rank uploads at least, without padding
  std::size_t slot_bytes = 0;     ///< of staging
  std::uint64_t second_pass_variables = 0;  ///< those for which all data were read again
  bool resumed;                             ///< from an earlier run
  std::vector<FinishedTile> taken;          ///< those of them that this rank took over
};

/// Fills all of `outcome` but its samples, and warns on rank 0 of what a user should know.
/// `stored`: whether C is. Collective.
void conclude(const runtime::Runtime& runtime, const GemmOperands& operands,
              const std::string& name, const GemmPlan& plan, const pipeline::Ring& staging,
              ProductLimits&& limits, bool stored, const ProductRun& ran, const Agreed& agreed,
              Outcome& outcome);

}  // namespace shardstream::workloads
