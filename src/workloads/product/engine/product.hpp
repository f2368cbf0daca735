// One rank's part of C = alpha op(A) op(B) + beta C0, computed super-tile by super-tile while the
// blocks of K stream by: the schedule of what GemmPanels brings and GemmTiles takes away.
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
#include "workloads/product/engine/panels.hpp"
#include "workloads/product/engine/tiles.hpp"
#include "workloads/product/engine/variable_sums.hpp"
#include "workloads/product/operands.hpp"
#include "workloads/product/plan/plan.hpp"

namespace shardstream::workloads {

/// Allocates once; run() may be repeated. Runtime, operands, `library`, `to` and `journal` must
/// outlive it. Constructor and run() are called by all ranks.
class GemmProduct {
 public:
  /// `library` multiplies the plan's tiles. C's elements go to `to` as well, and finished tiles to
  /// `journal`, if these are not null. Throws UsageError where the host's memory does not hold what
  /// this rank reads, and pipeline.mode wants it there.
  GemmProduct(runtime::Runtime& runtime, const GemmOperands& operands, GemmPlan plan,
              const gemm::MultiplyPlan& library, const pipeline::Ring& staging,
              const io::RangeWriter* to, io::Journal* journal);

  /// Brings A and B to where pipeline.mode wants them before timing begins.
  void load() { panels_.load(); }
  /// For centred or scaled operands. Between runs.
  void normalize(const Normalization& normalization);
  /// Of the last repetition.
  VariableSums::Totals variable_totals() { return variables_.totals(ring_.compute()); }
  /// One repetition, all of it: when it returns, C has left the device.
  void run();
  /// Of the last repetition.
  GemmVerdict verdict() const { return tiles_.verdict(); }
  std::uint64_t checksum() const { return tiles_.checksum(); }

  /// Bytes of a staging slot: as wanted, or the eight rows that are read at once.
  std::size_t slot_bytes() const { return panels_.ring_sizes().slot_bytes; }
  /// Bytes that this rank uploads in one repetition.
  std::uint64_t uploaded() const { return panels_.uploaded(); }

 private:
  struct SuperTile {
    GemmSuperTile extent;
    std::uint64_t first = 0;       ///< the place of its first tile's accumulator
    std::vector<GemmTile> tiles;   ///< of C
    std::vector<gemm::TileAt> at;  ///< the same, in the panels
  };

  std::uint64_t last_use(std::uint64_t batch) const;
  void compute(device::Stream& stream, std::uint64_t number);
  void add_products(device::Stream& stream, std::uint64_t number);
  void multiply(std::uint64_t number, Range tiles);
  void join_lanes(device::Stream& stream, const SuperTile& of, std::uint64_t level, Range tiles);
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
  void exchange_rows(device::Stream& stream, const SuperTile& super_tile, std::uint64_t first,
                     Range rows);

  std::byte* accumulator(std::uint64_t level, std::uint64_t index) const {
    return accumulators_.data() + (level * plan_.held_tiles + index) * tile_bytes_;
  }
  /// Where the products of a super-tile's tile go: its accumulator, or the first of its lanes.
  std::byte* target(const SuperTile& of, std::uint64_t level, std::uint64_t index) const {
    const std::uint64_t lanes = plan_.problem.tile.lanes;
    return lanes == 1 ? accumulator(level, of.first + index)
                      : lanes_.data() + index * lanes * tile_bytes_;
  }
  std::uint64_t tiles_of(std::uint64_t batch) const {
    return super_tiles_[plan_.batch(batch).super_tile].tiles.size();
  }
  bool splits_k() const { return plan_.box.depth > 1; }
  /// The stream that has a tile's products in all batches.
  unsigned turn_of(std::uint64_t tile) const {
    return static_cast<unsigned>(tile / together_ % streams_.count());
  }

  runtime::Runtime& runtime_;
  const GemmOperands& operands_;
  GemmPlan plan_;
  const gemm::MultiplyPlan& library_;
  std::size_t row_bytes_, tile_bytes_;  ///< of a tile
  std::uint64_t together_;              ///< tiles of one launch
  bool gathers_block_;                  ///< the thread that enqueues, as in GemmRates
  std::vector<SuperTile> super_tiles_;
  /// Batches that are on the device, or on their way, whose products are not all enqueued.
  Range waiting_{};
  struct {
    std::uint64_t tiles = 0;  ///< that have the products of waiting batches, up to `end`
    std::uint64_t end = 0;
  } swept_;  ///< by the sweep under way, if it has tiles
  /// Of split-k: the ranks with the same tiles, one of each layer. Before the panels, which may
  /// refuse to be made on one rank: they and their peers are split off by all.
  std::unique_ptr<comm::Communicator> layers_;
  GemmPanels panels_;
  VariableSums variables_;
  bool final_ = false;  ///< Normalization::final
  device::Buffer<std::byte> accumulators_, lanes_;
  std::vector<GemmTiles::Station> stations_;  ///< of level 0's
  /// Z, and the squares of A's rows and of B's column tiles, of the super-tile at work, slice by
  /// slice; of split-k also all layers'.
  device::Buffer<double> check_, checks_;
  std::uint64_t check_pitch_ = 0;  ///< doubles of a slice
  /// In check_, of the first slice.
  double *z_ = nullptr, *row_squares_ = nullptr, *column_squares_ = nullptr;
  device::Buffer<std::byte> send_, receive_;  ///< of the exchange
  /// Behind the latest products, and behind those before.
  std::unique_ptr<device::Event> computed_, computed_before_;
  std::unique_ptr<device::Event> given_, received_;  ///< what goes to other layers, and comes back
  // Its writers use what stands above until it is gone, also where a run has failed.
  GemmTiles tiles_;
  pipeline::UploadRing ring_;
  device::ForkedStreams streams_;  ///< forked from the ring's compute(): tiles take turns on them
};

}  // namespace shardstream::workloads
