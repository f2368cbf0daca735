// The last steps of a tile on the device: it is checked and becomes C, and the drain downloads it.
// HostTiles takes it on the host. Two matrices leave a tile of a pairwise product: C and the counts
// N, which lie one after another.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/log.hpp"
#include "device/buffer.hpp"
#include "io/output/checkpoint.hpp"
#include "io/output/dataset_file.hpp"
#include "kernels/gemm/check.hpp"
#include "kernels/gemm/multiply/multiply.hpp"
#include "pipeline/drain.hpp"
#include "pipeline/pipeline_options.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/data/finished_tile.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/product/engine/host_tiles.hpp"
#include "workloads/product/engine/normalization/normalization.hpp"
#include "workloads/product/engine/panels.hpp"
#include "workloads/product/engine/tile_sums.hpp"
#include "workloads/product/plan/product_plan.hpp"
#include "workloads/product/plan/tile_report.hpp"

namespace shardstream::workloads::product {

/// Allocates once; a run starts with begin() and ends with finish(). Runtime, operands, plan, the
/// writers `to` and `journal` must outlive it. Only the recorder's main thread may call its
/// members.
class TileDrain {
 public:
  /// Bytes of host memory: the slots of the drain, and buffers for a tile of C0, one in the stored
  /// type and one in the type of C.
  static std::uint64_t host_bytes(const Operands& operands, const Plan& plan,
                                  const pipeline::StagingSizes& staging);

  /// `to` has one writer for each matrix that leaves the tiles, or none if they are not stored.
  /// Finished tiles are added to `journal`, unless it is null.
  TileDrain(runtime::Runtime& runtime, const Operands& operands, const Plan& plan,
            const pipeline::StagingSizes& staging, std::span<const io::RangeWriter> to,
            io::Journal* journal);

  /// When a tile leaves its memory, which may be used again afterwards.
  class Departure {
   public:
    explicit Departure(device::Device& device) : finished_(device.make_event()) {}

   private:
    friend class TileDrain;
    std::unique_ptr<device::Event> finished_;
    std::uint64_t pushed_ = 0;
  };
  /// The sums and factors that turn a tile of changed values into C: see gemm::CovarianceArgs.
  struct Variables {
    const double *row_sums = nullptr, *column_sums = nullptr;
    const double *row_factors = nullptr, *column_factors = nullptr;
    const double *row_weights = nullptr, *column_weights = nullptr;
    double samples = 0, alpha = 1;
    DeviceSums sums;  ///< of the rows
  };
  /// The references for the check of a tile, of its whole super-tile: see gemm::CheckTileArgs.
  struct CheckReferences {
    const double* z;
    std::uint64_t z_stride;
    const double* row_squares;
    const double* column_squares;
    const gemm::TileAt* moments;  ///< the places of the tile's moments in the panels
    Variables variables;
  };

  /// Starts a run. `products`: their number in the whole run, for the progress that is shown. One
  /// product is one tile times one block of K. `normalization` must not change until finish().
  void begin(device::Stream& stream, std::uint64_t products, const Normalization& normalization);
  /// Call it after `products` more products have been enqueued on `stream`. They count as progress
  /// when they have been computed.
  void multiplied(device::Stream& stream, std::uint64_t products);
  /// Adds the products that have been computed to the progress. Call it often.
  void report_progress();
  /// A tile whose products are enqueued.
  struct Computed {
    std::uint64_t group;  ///< the number of its super-tile
    TileIndex tile;
    /// The accumulators of its moments, one after another, each dense in the tile's padded shape.
    std::byte* data;
    /// Those that were not passed to multiplied(). They are added to the progress once the tile has
    /// left.
    std::uint64_t products;
  };
  /// Finishes the tile after the work of `stream`. `scratch` is the index (< Ranks::streams) of a
  /// scratch buffer that only this stream uses.
  void finish_tile(device::Stream& stream, unsigned scratch, const Computed& computed,
                   const CheckReferences& references, Departure& departure);
  /// Work enqueued on `stream` after this call may use the memory that the tile leaves.
  void wait(device::Stream& stream, const Departure& departure) {
    drain_.wait(stream, departure.pushed_);
  }
  /// Work enqueued on `stream` after this call may overwrite Variables::sums.
  void wait_for_sums(device::Stream& stream) { drain_.wait(stream, pushed_sums_); }
  /// Finishes a super-tile, which is a group of the journal, after the work of `stream`: checks its
  /// uploads, and adds the group to the journal. `unsettled` is the device address of the number of
  /// variables that need another pass, or null for none. If the number is above 0, the group is not
  /// added.
  void finish_group(device::Stream& stream, std::uint64_t group, const Panels& panels,
                    const std::uint64_t* unsettled);
  /// Ends the run: waits until everything has been written.
  void finish();

  /// The result of the checks in the last run.
  CheckSummary checks() const { return host_.checks(); }
  /// This rank's part of the checksums of C and N in the last run.
  std::uint64_t checksum() const { return host_.checksum(); }

 private:
  /// The current tile of C0. Only exists if the product adds C0.
  struct Addend {
    device::Buffer<std::byte> device, host;  ///< in the type of C
    std::vector<std::byte> stored;           ///< the same in the stored type, if it differs
    std::unique_ptr<device::Event> read;     ///< recorded after the upload of C0's tile
    std::unique_ptr<device::Event> added;    ///< recorded after the kernel that adds it
  };
  /// The mirrors that leave, max_mirrors of each result, in turn.
  struct Mirrors {
    device::Buffer<std::byte> memory;
    std::vector<Departure> departures;  ///< one for each place in `memory`
    std::uint64_t count = 0;            ///< number of tiles mirrored in this run
  };
  using Tile = HostTiles::Tile;
  using Group = HostTiles::Group;

  void check(device::Stream& stream, unsigned scratch, const Tile& tile, const std::byte* data,
             const CheckReferences& references, TileReport* report);
  void apply_alpha_beta(device::Stream& stream, Tile& tile, std::byte* data, TileReport* report);
  void covariance(device::Stream& stream, const Tile& tile, std::byte* data,
                  const Variables& variables, TileReport* report);
  void read_c(const Tile& tile);
  void pairwise(device::Stream& stream, const Tile& tile, std::byte* data,
                const Variables& variables, TileReport* report);
  void mirror(device::Stream& stream, Tile& tile, const std::byte* data, TileReport* report);

  runtime::Runtime& runtime_;
  const Operands& operands_;
  const Plan& plan_;
  ElementType type_;     ///< of C's elements
  std::size_t element_;  ///< bytes of an element of C
  /// Bytes of a row of a tile, and of each accumulator of the tile, padded.
  std::size_t row_bytes_, tile_bytes_;
  std::uint64_t results_;  ///< number of matrices that leave a tile

  device::Buffer<gemm::RowVerdict> row_verdicts_;  ///< scratch memory: one tile for each stream
  device::Buffer<TileReport> reports_;             ///< by plan.number_of()
  Addend c0_;
  Mirrors mirrors_;

  std::uint64_t pushed_sums_ = 0;                             ///< the latest push of sums
  std::vector<std::unique_ptr<device::Event>> group_events_;  ///< for each super-tile
  HostTiles host_;
  /// Products that have been enqueued; `computed` is recorded after them.
  struct Enqueued {
    std::unique_ptr<device::Event> computed;
    std::uint64_t products;
  };
  std::optional<Progress> progress_;  ///< of all runs
  std::deque<Enqueued> enqueued_;     ///< products that have not been added to the progress
  std::vector<std::unique_ptr<device::Event>> idle_events_;  ///< for further products
  pipeline::Drain drain_;                                    // last: its writers use the rest
};

}  // namespace shardstream::workloads::product
