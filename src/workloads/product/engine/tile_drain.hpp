// The last steps of a tile. On the device it is checked and becomes C. The drain downloads it. On
// the host (tile_drain_host.cpp) its checksum is computed, and it is written. Two matrices leave a
// tile of a pairwise product: C and the counts N, which lie one after another.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/log.hpp"
#include "device/buffer.hpp"
#include "io/output/checkpoint.hpp"
#include "io/output/dataset_file.hpp"
#include "kernels/gemm/check.hpp"
#include "kernels/gemm/multiply/multiply.hpp"
#include "kernels/gemm/panel/checksum.hpp"
#include "pipeline/drain.hpp"
#include "pipeline/options.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/data/finished_tile.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/product/engine/normalization/normalization.hpp"
#include "workloads/product/engine/panels.hpp"
#include "workloads/product/engine/tile_sums.hpp"
#include "workloads/product/plan/plan.hpp"
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
  /// Finishes the tile at `data` after the work of `stream`. The accumulators of its moments lie
  /// one after another, each dense in the tile's padded shape. `scratch` is the index (<
  /// Ranks::streams) of a scratch buffer that only this stream uses. `products`: those of the tile
  /// that were not passed to multiplied(); they are added to the progress once the tile has left.
  void finish_tile(device::Stream& stream, unsigned scratch, std::uint64_t group, TileIndex tile,
                   std::byte* data, const CheckReferences& references, Departure& departure,
                   std::uint64_t products);
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
  CheckSummary checks() const;
  /// This rank's part of the checksums of C and N in the last run.
  std::uint64_t checksum() const;

 private:
  /// The host's state of a tile in the current run.
  struct Tile {
    std::uint64_t number = 0;    ///< row * tile_columns + column
    std::uint64_t group = 0;     ///< number of its super-tile
    Range rows, columns;         ///< of C; the rest of the tile is padding
    bool present = false;        ///< whether finish_tile() was called in this run
    bool mirrored = false;       ///< whether C also contains the tile's mirror
    std::uint64_t c_words = 0;   ///< word checksum of the tile of C0 before its upload
    std::uint64_t products = 0;  ///< to be added to the progress once the tile has left
    TileReport report{};
    std::array<std::vector<double>, 2> row_squares;  ///< for each row of C, and of the counts
    /// Word checksums after the downloads, and the tile's part of C's checksum.
    std::atomic<std::uint64_t> words = 0, mirror_words = 0, weighted = 0;
    TileSums sums;  ///< of its rows, if it is on C's diagonal and C is centred or scaled
    /// Number of rows of C that are not finite. Counting ends at the first row of C0 that is not
    /// finite.
    std::atomic<std::uint64_t> infinite = 0;
    std::atomic<bool> c0_is_finite = true;
    /// The number of parts that have not reached the host: rows, rows of the mirror, sums, and the
    /// report.
    std::atomic<std::uint64_t> missing = 0;
    std::array<double, 2> squares{};  ///< sums of row_squares, set when nothing is missing
    PairCounts counts;                ///< guarded by counts_mutex_ until then
    std::vector<VariableStatistics> variables;  ///< from the sums or from N
  };
  /// The host's state of a super-tile in the current run.
  struct Group {
    std::unique_ptr<device::Event> finished;
    std::vector<std::uint64_t> checksums;  ///< Panels::device_checksums() of its batches
    std::uint64_t unsettled = 0;           ///< number of variables that need another pass
    /// The number of parts that have not reached the host: checksums of batches, and `unsettled`.
    std::atomic<std::uint64_t> missing = 0;
    std::string failure;  ///< empty: all uploads and gathers are right
  };

  void check(device::Stream& stream, unsigned scratch, const Tile& tile, const std::byte* data,
             const CheckReferences& references, TileReport* report);
  void apply_alpha_beta(device::Stream& stream, Tile& tile, std::byte* data, TileReport* report);
  void covariance(device::Stream& stream, const Tile& tile, std::byte* data,
                  const Variables& variables, TileReport* report);
  void read_c(const Tile& tile);
  void pairwise(device::Stream& stream, const Tile& tile, std::byte* data,
                const Variables& variables, TileReport* report);
  void mirror(device::Stream& stream, Tile& tile, const std::byte* data, TileReport* report);
  void take(Tile& tile, Range rows, const std::byte* data);
  void take_counts(Tile& tile, Range rows, const std::byte* data);
  void take_mirror(Tile& tile, std::uint64_t result, Range rows, const std::byte* data);
  std::uint64_t checksum_of(const Tile& tile, const gemm::RowChecksums& sums,
                            std::uint64_t row) const;
  bool overflows(Tile& tile, std::uint64_t row, const std::byte* data) const;
  void add_group(std::uint64_t number);
  std::uint64_t journal_group(std::uint64_t number) const;
  void complete_parts(Tile& tile, std::uint64_t parts);
  void complete_parts(Group& group, const Panels& panels, std::uint64_t parts);
  FinishedTile finished(const Tile& tile) const;
  std::string failure(const Tile& tile) const;

  runtime::Runtime& runtime_;
  const Operands& operands_;
  const Plan& plan_;
  std::span<const io::RangeWriter> to_;
  io::Journal* journal_;
  ElementType type_;     ///< of C's elements
  std::size_t element_;  ///< bytes of an element of C
  /// Bytes of a row of a tile, and of each accumulator of the tile, padded.
  std::size_t row_bytes_, tile_bytes_;
  std::uint64_t results_;  ///< number of matrices that leave a tile

  device::Buffer<gemm::RowVerdict> row_verdicts_;  ///< scratch memory: one tile for each stream
  device::Buffer<TileReport> reports_;             ///< by plan.number_of()
  device::Buffer<std::byte> c_device_, c_host_;    ///< one tile of C0, in the type of C
  std::vector<std::byte> c_stored_;                ///< the same in the stored type, if it differs
  std::unique_ptr<device::Event> c_read_;          ///< recorded after the upload of C0's tile
  std::unique_ptr<device::Event> c_added_;         ///< recorded after the kernel that adds it
  device::Buffer<std::byte> mirrors_;              ///< max_mirrors tiles of each result, in turn
  std::vector<Departure> mirror_departures_;       ///< one for each tile of mirrors_
  std::uint64_t mirrored_ = 0;                     ///< number of tiles mirrored in this run

  const Normalization* normalization_ = nullptr;  ///< of the current run
  std::uint64_t pushed_sums_ = 0;                 ///< the latest push of sums

  std::vector<Tile> tiles_;    ///< by plan.number_of()
  std::vector<Group> groups_;  ///< by super-tile
  std::uint64_t runs_ = 0;     ///< number of calls of begin()
  std::mutex counts_mutex_;
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
