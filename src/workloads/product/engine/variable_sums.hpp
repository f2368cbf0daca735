// Sums of each variable of centred or scaled data, computed on the device from the panels that are
// multiplied. They are complete when a super-tile's tiles are finished.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.hpp"
#include "device/buffer.hpp"
#include "workloads/product/engine/panels.hpp"
#include "workloads/product/engine/tile_drain.hpp"
#include "workloads/product/operands.hpp"
#include "workloads/product/plan/plan.hpp"

namespace shardstream::workloads::product {

/// Allocates once; nothing if data are neither centred nor scaled, or on idle ranks. A run starts
/// with begin(). Operands and plan must outlive it. Every rank sums its gathered panels
/// whole, block by block and segment by segment of K, and adds the segments in their order. So all
/// ranks have the same bits.
class VariableSums {
 public:
  /// An upper bound of the device memory of any rank, in bytes.
  static std::uint64_t device_bytes(const Operands& operands, const Problem& problem);

  VariableSums(device::Device& device, const Operands& operands, const Plan& plan);

  void begin(device::Stream& stream, bool final);
  /// Adds a block of K whose panels have arrived. Called in the order of the blocks.
  void add(device::Stream& stream, std::uint64_t batch, const Panels::Batch& panels);
  /// With split-k, after the last block of the super-tile: all layers receive the sums of all
  /// layers.
  void gather(device::Stream& collectives, comm::Communicator& layers);
  /// After the super-tile's last block, and gather(). `scales`: of Normalization, on the device.
  void settle(device::Stream& stream, std::uint64_t super_tile, const double* scales);

  /// The sums and factors that finish a tile; nothing if data are neither centred nor scaled.
  TileDrain::Variables of(TileIndex tile) const;
  /// On the device, after settle(): the number of the super-tile's variables that the normalization
  /// does not suit; null if nothing is normalized.
  const std::uint64_t* unsettled(std::uint64_t super_tile) const {
    return unsettled_.size() > 0 ? unsettled_.data() + super_tile : nullptr;
  }

  /// The sums of all variables in this rank's super-tiles, and of their squares; zeros of others.
  struct Totals {
    std::vector<double> sums, squares;
  };
  Totals totals(device::Stream& stream) const;

 private:
  double* part(gemm::Side side, std::uint64_t slot) const {
    return parts_.data() + ((side == gemm::Side::a ? slots_ : 0) + slot) * 2 * variables_;
  }
  Range variables_of(Range tiles) const;
  bool sums_rows(const SuperTile& super_tile) const { return !plan_.a_from_b(super_tile); }

  const Operands& operands_;
  const Plan& plan_;
  std::uint64_t variables_ = 0;         ///< with padding of tiles
  std::uint64_t slots_ = 0;             ///< segments of K: the maximum over all layers
  std::vector<std::uint64_t> slot_of_;  ///< of each own block
  bool final_ = false;
  /// A sum and a sum of squares for each variable: of B's columns, slot by slot, then of A's rows.
  device::Buffer<double> parts_, gathered_;
  device::Buffer<double> scratch_;
  device::Buffer<double> sums_, squares_, factors_;
  device::Buffer<std::uint64_t> unsettled_;  ///< of each super-tile
};

}  // namespace shardstream::workloads::product
