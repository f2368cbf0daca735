// The sum of each variable of a product that changes values, and the sum of its squares. They are
// computed on the device, from the same panels as the products, and are complete before the tiles
// of a super-tile are finished.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.hpp"
#include "device/buffer.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/product/engine/normalization/normalization.hpp"
#include "workloads/product/engine/panels.hpp"
#include "workloads/product/engine/tile_drain.hpp"
#include "workloads/product/plan/product_plan.hpp"

namespace shardstream::workloads::product {

/// Allocates once; nothing if values are not changed, or on idle ranks. A run starts
/// with begin(). Operands and plan must outlive it. Every rank sums whole gathered panels, block by
/// block, with separate sums for each segment of K. Then it adds the sums of the segments in their
/// order. So all ranks have the same bits.
class VariableSums {
 public:
  /// An upper bound of the bytes of device memory that any rank needs for these sums.
  static std::uint64_t device_bytes(const Operands& operands, const Problem& problem);

  VariableSums(device::Device& device, const Operands& operands, const Plan& plan);

  /// `normalization` must outlive the run.
  void begin(device::Stream& stream, const Normalization& normalization);
  /// Adds a block of K whose panels have arrived. Called in the order of the blocks.
  void add(device::Stream& stream, std::uint64_t batch, const Panels& panels);
  /// With split-k, call it after the last block of the super-tile: all layers receive the sums of
  /// all layers.
  void gather(device::Stream& collectives, comm::Communicator& layers);
  /// Adds the sums of all segments, and computes the factors of the super-tile's variables. Call it
  /// after the last block, and after gather().
  void settle(device::Stream& stream, std::uint64_t super_tile, const Panels& panels);

  /// The sums and factors that finish a tile; nothing if values are not changed.
  TileDrain::Variables of(TileIndex tile) const;
  /// The device address of the number of the super-tile's variables for which shift and scale are
  /// not suitable, complete after settle(). Null if nothing is normalized.
  const std::uint64_t* unsettled(std::uint64_t super_tile) const {
    return unsettled_.size() > 0 ? unsettled_.data() + super_tile : nullptr;
  }

  /// The sum of each variable, the sum of its squares, and the number of its samples with a value.
  /// They are only valid for `present` variables, which are in this rank's super-tiles.
  struct Totals {
    std::vector<double> sums, squares, counts;
    std::vector<bool> present;
  };
  Totals totals(device::Stream& stream) const;

 private:
  double* part(gemm::Side side, std::uint64_t slot) const {
    return parts_.data() + ((side == gemm::Side::a ? slots_ : 0) + slot) * 2 * columns_;
  }
  Range variables_of(Range tiles) const;
  bool sums_rows(const SuperTile& super_tile) const { return !plan_.shape.a_from_b(super_tile); }

  const Operands& operands_;
  const Plan& plan_;
  std::uint64_t variables_ = 0;  ///< with padding of tiles
  std::uint64_t columns_ = 0;    ///< of all panels of B: the variables times the number of planes
  std::uint64_t slots_ = 0;      ///< number of segments of a layer: the maximum of all layers
  std::vector<std::uint64_t>
      slot_of_;  ///< for each own block, the number of its segment in the layer
  const Normalization* normalization_ = nullptr;
  std::vector<double> weight_roots_;  ///< of the variables, with padding; empty without weights
  /// The sums of segments: slot by slot for B's columns, then slot by slot for A's rows. A slot has
  /// the sums of all columns, then their sums of squares. `gathered_` has those of all layers.
  device::Buffer<double> parts_, gathered_;
  device::Buffer<double> scratch_;
  device::Buffer<double> sums_, squares_, factors_, counts_, weights_;
  device::Buffer<std::uint64_t> unsettled_;  ///< one number for each super-tile
};

}  // namespace shardstream::workloads::product
