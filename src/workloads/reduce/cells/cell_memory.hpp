// How the cells of a reduction are divided so that their states fit into device memory.
#pragma once

#include <cstdint>
#include <optional>

#include "core/shard.hpp"
#include "kernels/cells/cells.hpp"
#include "pipeline/stream_limits.hpp"

#include "workloads/reduce/cells/cell_plan.hpp"
#include "workloads/reduce/cells/rank_nodes.hpp"
#include "workloads/stream/computation.hpp"

namespace shardstream::workloads {

class CellMemory {
 public:
  struct Needs {
    unsigned words;       ///< of the state of a value
    std::uint64_t lists;  ///< bytes of lists in device memory
    bool is_row;          ///< as in CellRequest
  };
  /// `plan` must outlive it.
  CellMemory(const CellPlan& plan, const Needs& needs) : plan_(plan), needs_(needs) {}

  /// Chooses as few passes as the memory allows, and then as many units at a time, up to those of a
  /// batch. If even the most passes need too much, sampled boxes get a single cell. Throws
  /// UsageError if that does not help. Called before any of the functions below.
  void choose(const pipeline::BatchMemory& batches, const stream::Shards& shards);

  bool is_chosen() const { return nodes_.has_value(); }
  const RankNodes& nodes() const { return *nodes_; }
  /// Each of them is a pass over the data, for a part of the cells.
  std::uint64_t passes() const { return passes_; }
  cells::CellRange cells_of_pass(std::uint64_t number) const;
  /// Units that have accumulators at the same time.
  std::uint64_t slots() const { return slots_; }
  /// The most cells of a sampled box.
  std::uint64_t box_cells() const { return box_cells_; }
  /// The bytes of the rank that needs most, so that all ranks give the same advice.
  std::uint64_t bytes() const { return largest_.with(slots_); }
  /// The most sampled boxes, each of which has accumulators of all groups. Known before choose().
  std::uint64_t max_samples() const;

 private:
  /// The device memory of a rank in bytes.
  struct Use {
    std::uint64_t fixed = 0;     ///< without accumulators
    std::uint64_t per_unit = 0;  ///< for the accumulators and moments of a unit
    std::uint64_t units = 0;     ///< of the shard

    std::uint64_t with(std::uint64_t units_at_once) const;
  };
  Use use(Range shard) const;
  Use largest_use(const stream::Shards& shards) const;
  std::uint64_t states(std::uint64_t cells) const;
  std::uint64_t exchange_bytes(std::uint64_t outputs) const;
  std::uint64_t box_cells_in(std::uint64_t device_memory) const;
  std::uint64_t units_at_once(const pipeline::BatchMemory& batches) const;
  void choose_slots(const pipeline::BatchMemory& batches);

  const CellPlan& plan_;
  const Needs needs_;
  std::optional<RankNodes> nodes_;
  Use largest_;
  std::uint64_t passes_ = 1, slots_ = 1, box_cells_ = 1;
};

}  // namespace shardstream::workloads
