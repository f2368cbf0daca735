// One rank's part of C = alpha op(A) op(B) + beta C0, computed super-tile by super-tile. This is
// the schedule: PanelUploads and Panels bring the panels of A and B, block by block of K. Engine
// multiplies them. TileDrain sends finished tiles to the host.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/buffer.hpp"
#include "device/forked_streams.hpp"
#include "kernels/gemm/multiply/multiply.hpp"
#include "pipeline/pipeline_options.hpp"
#include "pipeline/upload_ring.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/product/engine/layer_exchange.hpp"
#include "workloads/product/engine/normalization/variable_sums.hpp"
#include "workloads/product/engine/panel_uploads.hpp"
#include "workloads/product/engine/panels.hpp"
#include "workloads/product/engine/tile_drain.hpp"
#include "workloads/product/plan/product_plan.hpp"

namespace shardstream::workloads::product {

/// Allocates once; run() may be repeated. Runtime, operands, `library`, `to` and `journal` must
/// outlive it. Constructor and run() are collective.
class Engine {
 public:
  /// `library` multiplies the plan's tiles. `to` and `journal`: as in TileDrain. Throws UsageError
  /// if the host's memory is too small for staging and for what pipeline.mode keeps there.
  Engine(runtime::Runtime& runtime, const Operands& operands, Plan plan,
         const gemm::MultiplyPlan& library, const pipeline::StagingSizes& staging,
         std::span<const io::RangeWriter> to, io::Journal* journal);

  /// Loads A and B as pipeline.mode requests, and connects the layers, before timing begins.
  void load() {
    uploads_.load();
    if (layers_) layers_->connect();
  }
  /// Sets how the values of the operands are changed. Call it between runs.
  void normalize(const Normalization& normalization);
  /// The sums of all variables in the last run.
  VariableSums::Totals variable_totals() { return variables_.totals(ring_.compute()); }
  /// A copy of Panels::lost() after the last run.
  std::vector<std::uint8_t> lost_variables();
  /// If residues are multiplied, a bound of the error |C - A B| / (|a_i| |b_j|) that this rank's
  /// panels of the last run got when their lines were rounded to integers. Else 0.
  double rounding_error();
  /// Computes the whole product once. When it returns, C has left the device.
  void run();
  /// The result of the checks in the last run.
  CheckSummary checks() const { return tiles_.checks(); }
  /// TileDrain::checksum() of the last run.
  std::uint64_t checksum() const { return tiles_.checksum(); }

  /// Bytes of a staging slot: as requested, but at least the rows that are read at once.
  std::size_t slot_bytes() const { return uploads_.slot_bytes(); }
  /// Bytes of A and B that this rank uploads in one run.
  std::uint64_t uploaded() const { return uploads_.uploaded(); }

 private:
  struct PlacedSuperTile {
    SuperTile extent;
    std::uint64_t first = 0;       ///< index of its first tile's accumulator
    std::vector<TileIndex> tiles;  ///< the computed tiles, by their places in C
    std::vector<gemm::TileAt> at;  ///< the places of their moments in the panels, tile by tile
  };

  // compute() is called for every batch that has arrived:
  // - It adds the batch to the references of the check (add_products).
  // - It multiplies a batch before the window at once (multiply_present).
  // - A batch of the window waits in `waiting_`. While later batches arrive, multiply_meanwhile()
  //   multiplies waiting batches, a few tiles at a time (sweep).
  // - After the last batch of a super-tile, join_slices() completes the references of the check.
  //   finish_super_tile() multiplies the rest, tile by tile. With split-k, exchange() adds the sums
  //   of the layers instead. Both call finish_tile() for each tile.
  // ../DESIGN.md shows an example (section "The plan").
  void add_places(PlacedSuperTile& to, TileIndex tile) const;
  std::uint64_t last_use(std::uint64_t batch) const;
  void compute(device::Stream& stream, std::uint64_t number);
  void add_products(device::Stream& stream, std::uint64_t number);
  void multiply(std::uint64_t number, Range tiles);
  void join_lanes(device::Stream& stream, const PlacedSuperTile& of, std::uint64_t level,
                  Range tiles);
  void join_slices(device::Stream& stream);
  void multiply_present(device::Stream& stream);
  bool multiply_meanwhile();
  void sweep(device::Stream& stream);
  void record_computed(device::Stream& stream);
  void finish_super_tile(device::Stream& stream);
  void finish_tile(device::Stream& stream, unsigned scratch, std::uint64_t super_tile,
                   std::uint64_t index, std::uint64_t products);
  void settle(device::Stream& stream, std::uint64_t super_tile);
  void exchange(device::Stream& stream, std::uint64_t super_tile);

  std::byte* accumulator(std::uint64_t level, std::uint64_t index) const {
    return accumulators_.data() + (level * plan_.schedule.sizes.held_tiles + index) * tile_bytes_;
  }
  /// The target of a tile's products: its accumulator, or the first of its lanes.
  std::byte* target(const PlacedSuperTile& of, std::uint64_t level, std::uint64_t index) const {
    const gemm::Tile& tile = plan_.problem().tile;
    return tile.has_lanes() ? lanes_.data() + index * moments_ * tile.lanes * lane_bytes_
                            : accumulator(level, of.first + index);
  }
  std::uint64_t count_tiles(std::uint64_t batch) const {
    return super_tiles_[plan_.batch(batch).super_tile].tiles.size();
  }
  bool splits_k() const { return plan_.shape.box.depth > 1; }
  /// The number of the stream that multiplies this tile, the same in all batches.
  unsigned turn_of(std::uint64_t tile) const {
    return static_cast<unsigned>(tile / together_ % streams_.count());
  }

  runtime::Runtime& runtime_;
  const Operands& operands_;
  Plan plan_;
  const gemm::MultiplyPlan& library_;
  std::uint64_t moments_;   ///< number of accumulators of a tile
  std::size_t tile_bytes_;  ///< bytes of the accumulators of a tile, which are contiguous
  std::size_t lane_bytes_;  ///< bytes of a lane's accumulator
  std::uint64_t together_;  ///< number of tiles that one launch multiplies
  bool gathers_block_;      ///< whether all-gathers block the main thread: see Rates
  std::vector<PlacedSuperTile> super_tiles_;
  /// The batches that compute() has got, but whose products are not enqueued for all tiles.
  Range waiting_{};
  /// A sweep multiplies the waiting batches before `end`, for a few tiles at a time. The products
  /// are enqueued for the first `tiles` tiles. If `tiles` is 0, there is no sweep.
  struct {
    std::uint64_t tiles = 0, end = 0;
  } swept_;
  // The communicators come first: every rank must take part in their splits, and the constructors
  // of the members below may throw on one rank.
  /// split-k: the ranks with the same tiles, one per layer; null if there is one layer.
  std::unique_ptr<comm::Communicator> layers_;
  PanelGroups panel_groups_;
  PanelUploads uploads_;
  Panels panels_;
  VariableSums variables_;
  Normalization normalization_;  ///< of a product that changes values
  device::Buffer<std::byte> accumulators_, lanes_;
  std::vector<TileDrain::Departure> departures_;  ///< one for each accumulator of level 0
  /// The references of the check for the current super-tile. Each slice has Z, the squares of A's
  /// rows, and the squares of B's column tiles.
  device::Buffer<double> check_;
  std::uint64_t check_pitch_ = 0;  ///< number of doubles of a slice
  /// The three parts of the first slice.
  double *z_ = nullptr, *row_squares_ = nullptr, *column_squares_ = nullptr;
  LayerExchange exchange_;  ///< split-k
  /// Recorded after the latest step of products, and after the step before it.
  std::unique_ptr<device::Event> computed_, computed_before_;
  // Destroyed before the members above, because its writers use them until then, even after an
  // error.
  TileDrain tiles_;
  pipeline::UploadRing ring_;
  /// The ring's compute() and streams forked from it. Tiles take turns on them.
  device::ForkedStreams streams_;
};

}  // namespace shardstream::workloads::product
