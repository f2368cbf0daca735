// Sums of each variable of centred or scaled data, on the device: taken from the panels that are
// multiplied, and complete when a super-tile's tiles are finished.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.hpp"
#include "device/buffer.hpp"
#include "workloads/product/engine/panels.hpp"
#include "workloads/product/engine/tiles.hpp"
#include "workloads/product/operands.hpp"
#include "workloads/product/plan/plan.hpp"

namespace shardstream::workloads {

/// Allocates once, nothing where data are neither centred nor scaled, or on idle ranks; a run
/// begins with begin(). Operands and plan must outlive it. Every rank sums its gathered panels
/// whole, block by block and segment by segment of K, and adds the segments in their order. So all
/// ranks have the same bits.
class VariableSums {
 public:
  /// Bytes of device memory of the rank that has most, at most.
  static std::uint64_t device_bytes(const GemmOperands& operands, const GemmProblem& problem);

  VariableSums(device::Device& device, const GemmOperands& operands, const GemmPlan& plan);

  void begin(device::Stream& stream, bool final);
  /// Adds one block of K, whose panels have arrived. In the order of the blocks.
  void add(device::Stream& stream, std::uint64_t batch, const GemmPanels::Batch& panels);
  /// With split-k: behind the super-tile's last block, all layers' sums come to every one of them.
  void gather(device::Stream& collectives, comm::Communicator& layers);
  /// Behind the super-tile's last block, and gather(). `scales`: of Normalization, on the device.
  void settle(device::Stream& stream, std::uint64_t super_tile, const double* scales);

  /// The sums and factors that finish a tile; nothing if data are neither centred nor scaled.
  GemmTiles::Variables of(GemmTile tile) const;
  /// On the device, behind settle(): variables of the super-tile that the normalization does not
  /// suit; null if nothing is normalized.
  const std::uint64_t* unsettled(std::uint64_t super_tile) const {
    return unsettled_.size() > 0 ? unsettled_.data() + super_tile : nullptr;
  }

  /// The sums of all variables in this rank's super-tiles, and of their squares; zeros of others.
  struct Totals {
    std::vector<double> sums, squares;
  };
  Totals totals(device::Stream& stream) const;

 private:
  struct Side {
    Range variables;
    const std::byte* panel;
    std::uint64_t ld;
    bool by_row;
  };
  double* part(bool of_rows, std::uint64_t slot) const {
    return parts_.data() + ((of_rows ? slots_ : 0) + slot) * 2 * variables_;
  }
  Range variables_of(Range tiles) const;
  bool sums_rows(const GemmSuperTile& super_tile) const { return !plan_.a_from_b(super_tile); }

  const GemmOperands& operands_;
  const GemmPlan& plan_;
  std::uint64_t variables_ = 0;         ///< with those that pad tiles
  std::uint64_t slots_ = 0;             ///< segments of K, of the layer that has most
  std::vector<std::uint64_t> slot_of_;  ///< of each own block
  bool final_ = false;
  /// A sum and a sum of squares for each variable: of B's columns, slot by slot, then of A's rows.
  device::Buffer<double> parts_, gathered_;
  device::Buffer<double> scratch_;
  device::Buffer<double> sums_, squares_, factors_;
  device::Buffer<std::uint64_t> unsettled_;  ///< of each super-tile
};

}  // namespace shardstream::workloads
