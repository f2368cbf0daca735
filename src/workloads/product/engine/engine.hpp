// One rank's part of C = alpha op(A) op(B) + beta C0, computed super-tile by super-tile while the
// blocks of K stream by: the schedule between Panels, which arrive, and TileDrain, which sends
// tiles to the host.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/buffer.hpp"
#include "device/forked_streams.hpp"
#include "kernels/gemm/multiply/multiply.hpp"
#include "pipeline/options.hpp"
#include "pipeline/upload_ring.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/engine/panel_uploads.hpp"
#include "workloads/product/engine/panels.hpp"
#include "workloads/product/engine/tile_drain.hpp"
#include "workloads/product/engine/variable_sums.hpp"
#include "workloads/product/operands.hpp"
#include "workloads/product/plan/plan.hpp"

namespace shardstream::workloads::product {

/// Allocates once; run() may be repeated. Runtime, operands, `library`, `to` and `journal` must
/// outlive it. Constructor and run() are collective.
class Engine {
 public:
  /// `library` multiplies the plan's tiles. C's elements are written to `to`, and finished tiles to
  /// `journal`, unless these are null. Throws UsageError if the host's memory is too small for
  /// staging and, with pipeline.mode pageable, for this rank's operands.
  Engine(runtime::Runtime& runtime, const Operands& operands, Plan plan,
         const gemm::MultiplyPlan& library, const pipeline::StagingSizes& staging,
         const io::RangeWriter* to, io::Journal* journal);

  /// Loads A and B as pipeline.mode requests, before timing begins.
  void load() { uploads_.load(); }
  /// For centred or scaled operands. Between runs.
  void normalize(const Normalization& normalization);
  /// Of the last repetition.
  VariableSums::Totals variable_totals() { return variables_.totals(ring_.compute()); }
  /// One whole repetition. When it returns, C has left the device.
  void run();
  /// Of the last repetition.
  Verdict verdict() const { return tiles_.verdict(); }
  std::uint64_t checksum() const { return tiles_.checksum(); }

  /// Bytes of a staging slot: as requested, or large enough for the rows that are read at once.
  std::size_t slot_bytes() const { return uploads_.ring_sizes().slot_bytes; }
  /// Bytes that this rank uploads in one repetition.
  std::uint64_t uploaded() const { return uploads_.uploaded(); }

 private:
  struct PlacedSuperTile {
    SuperTile extent;
    std::uint64_t first = 0;       ///< index of its first tile's accumulator
    std::vector<TileIndex> tiles;  ///< of C
    std::vector<gemm::TileAt> at;  ///< the same, in the panels
  };

  // compute() gets every batch. It adds the batch to the check (add_products). It multiplies a
  // batch before the window at once (multiply_present). Batches of the window are multiplied while
  // later ones arrive (multiply_meanwhile, sweep). After the last batch of a super-tile,
  // join_slices ends the check. Then finish_super_tile multiplies the rest; with split-k, exchange
  // adds the sums of the layers instead. Both call finish_tile for each tile.
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
  void gather_check(device::Stream& stream);
  void exchange(device::Stream& stream, std::uint64_t super_tile);
  template <class Call>
  void among_layers(device::Stream& stream, const Call& call);
  void exchange_rows(device::Stream& stream, const PlacedSuperTile& super_tile, std::uint64_t first,
                     Range rows);

  std::byte* accumulator(std::uint64_t level, std::uint64_t index) const {
    return accumulators_.data() + (level * plan_.held_tiles + index) * tile_bytes_;
  }
  /// The target of a tile's products: its accumulator, or the first of its lanes.
  std::byte* target(const PlacedSuperTile& of, std::uint64_t level, std::uint64_t index) const {
    const std::uint64_t lanes = plan_.problem.tile.lanes;
    return lanes == 1 ? accumulator(level, of.first + index)
                      : lanes_.data() + index * lanes * tile_bytes_;
  }
  std::uint64_t tiles_of(std::uint64_t batch) const {
    return super_tiles_[plan_.batch(batch).super_tile].tiles.size();
  }
  bool splits_k() const { return plan_.box.depth > 1; }
  /// The stream that multiplies a tile in all batches.
  unsigned turn_of(std::uint64_t tile) const {
    return static_cast<unsigned>(tile / together_ % streams_.count());
  }

  runtime::Runtime& runtime_;
  const Operands& operands_;
  Plan plan_;
  const gemm::MultiplyPlan& library_;
  std::size_t row_bytes_, tile_bytes_;  ///< of a tile
  std::uint64_t together_;              ///< tiles of one launch
  bool gathers_block_;                  ///< all-gathers block the main thread: see Rates
  std::vector<PlacedSuperTile> super_tiles_;
  /// Batches on the device, or on their way, whose products are not all enqueued.
  Range waiting_{};
  /// A sweep gives tile after tile the products of the waiting batches before `end`. The first
  /// `tiles` tiles have them; 0: no sweep is under way.
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
  bool final_ = false;  ///< Normalization::final
  device::Buffer<std::byte> accumulators_, lanes_;
  std::vector<TileDrain::Station> stations_;  ///< one for each accumulator of level 0
  /// The sums of the check for the current super-tile: slice by slice Z, the squares of A's rows,
  /// and the squares of B's column tiles.
  device::Buffer<double> check_;
  std::uint64_t check_pitch_ = 0;  ///< doubles of a slice
  device::Buffer<double> checks_;  ///< split-k: the first slice of every layer, gathered
  /// The parts of the first slice.
  double *z_ = nullptr, *row_squares_ = nullptr, *column_squares_ = nullptr;
  device::Buffer<std::byte> send_, receive_;  ///< of the exchange
  /// Recorded after the latest products, and after the ones before.
  std::unique_ptr<device::Event> computed_, computed_before_;
  std::unique_ptr<device::Event> given_,
      received_;  ///< data for other layers is ready; theirs has arrived
  // Destroyed before the members above, because its writers use them until then, even after an
  // error.
  TileDrain tiles_;
  pipeline::UploadRing ring_;
  device::ForkedStreams streams_;  ///< forked from the ring's compute(): tiles take turns on them
};

}  // namespace shardstream::workloads::product
