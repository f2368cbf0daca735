// The outcome of a product: the common verdict of all ranks, and the metrics and tables of the
// result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/pipeline_options.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/data/finished_tile.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/product/described_variables.hpp"
#include "workloads/product/engine/normalization/not_finite.hpp"
#include "workloads/product/engine/normalization/samples.hpp"
#include "workloads/product/plan/product_plan.hpp"
#include "workloads/product/product_limits.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads::product {

/// The common verdict of all ranks, the same on every rank.
struct Agreed {
  std::string failure;                         ///< empty: everything agrees
  double worst = 0, detection_threshold = 0;   ///< maxima of those in CheckSummary
  double squares = 0;                          ///< sum of the squares of C's elements
  std::uint64_t rows = 0;                      ///< number of rows of all computed tiles
  std::uint64_t unchecked = 0, checksum = 0;   ///< sums of those in CheckSummary
  std::uint64_t overflowed = 0, infinite = 0;  ///< sums of those in CheckSummary
  std::vector<VariableStatistics> variables;   ///< of all variables, if data are normalized
  PairCounts counts;                           ///< if the product is pairwise
  double counts_squares = 0;                   ///< sum of the squares of N's elements

  /// Number of rows of tiles that could not be checked or overflow.
  std::uint64_t unverified() const { return unchecked + infinite; }
  std::uint64_t overflowed_rows() const { return overflowed + infinite; }
  Verification verification() const {
    if (!failure.empty()) return Verification::failed;
    if (unverified() == 0) return Verification::passed;
    return unverified() < rows ? Verification::partly : Verification::unchecked;
  }
};

/// Combines the checks of all ranks. `mine` is that of this rank's tiles, including the tiles
/// that it took over. `repeatable`: whether its repetitions had the same results. Collective.
Agreed agree(const ranks::Session& session, const Plan& plan, const CheckSummary& mine,
             bool repeatable);

/// The work of a rank in each repetition of a product.
struct RankRecord {
  bool computed = false;          ///< false: every rank took over all of its tiles
  std::uint64_t min_uploads = 0;  ///< the smaller of Traffic::min_uploads and the uploaded bytes
  std::size_t slot_bytes = 0;     ///< bytes of a staging slot
  std::uint64_t second_pass_variables = 0;  ///< variables whose data were read again
  double rounding_error = 0;                ///< Engine::rounding_error()
  const Samples* samples = nullptr;         ///< the samples that count; null if values are kept
  std::optional<NotFinite> not_finite;      ///< the reason if rows of C could not be checked
  bool resumed;                             ///< whether the run resumed from an earlier run
  std::vector<FinishedTile> taken;          ///< tiles of that run that this rank took over
};

/// A product that has been computed.
struct ComputedProduct {
  const Operands& operands;
  const std::string& name;  ///< of the workload
  const Plan& plan;
  const pipeline::StagingSizes& staging;
  bool stored;                 ///< whether C is
  const VariableNames& names;  ///< of the variables of a symmetric product
};

/// Fills `outcome`, except for its samples, and prints warnings on rank 0. Collective.
void conclude(const runtime::Runtime& runtime, const ComputedProduct& product, Limits&& limits,
              const RankRecord& ran, const Agreed& agreed, Outcome& outcome);

}  // namespace shardstream::workloads::product
