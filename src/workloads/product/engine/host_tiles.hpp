// The host's side of finished tiles. Writers pass the rows that have left the device: they are
// written, and their checksums and squares added. A tile whose last part has come is judged, and
// recorded in the journal. Two matrices leave a tile of a pairwise product: C and the counts N.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/log.hpp"
#include "io/output/checkpoint.hpp"
#include "io/output/dataset_file.hpp"
#include "kernels/gemm/panel/checksum.hpp"
#include "workloads/product/data/finished_tile.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/product/engine/normalization/normalization.hpp"
#include "workloads/product/engine/panels.hpp"
#include "workloads/product/engine/tile_sums.hpp"
#include "workloads/product/plan/product_plan.hpp"
#include "workloads/product/plan/tile_report.hpp"

namespace shardstream::workloads::product {

/// Operands, plan, the writers `to` and `journal` must outlive it. The functions that take or
/// complete parts may be called by several threads at a time, each for other parts.
class HostTiles {
 public:
  /// The host's state of a tile in the current run.
  struct Tile {
    std::uint64_t number = 0;    ///< row * tile_columns + column
    std::uint64_t group = 0;     ///< number of its super-tile
    Range rows, columns;         ///< of C; the rest of the tile is padding
    bool present = false;        ///< whether expect() was called in this run
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
    std::vector<std::uint64_t> checksums;  ///< Panels::device_checksums() of its batches
    std::uint64_t unsettled = 0;           ///< number of variables that need another pass
    /// The number of parts that have not reached the host: checksums of batches, and `unsettled`.
    std::atomic<std::uint64_t> missing = 0;
    std::string failure;  ///< empty: all uploads and gathers are right
  };

  /// `to` and `journal`: as in TileDrain.
  HostTiles(const Operands& operands, const Plan& plan, std::span<const io::RangeWriter> to,
            io::Journal* journal);

  /// Starts a run. `normalization` and `progress` must outlive it.
  void begin(const Normalization& normalization, Progress& progress);
  /// The tile, which is about to leave the device, with the number of its parts. `sums` are those
  /// of its variables. `products` are added to the progress when the tile is complete.
  Tile& expect(TileIndex at, std::uint64_t group, std::uint64_t products, const DeviceSums& sums);
  /// The super-tile, whose checksums are about to leave the device; `settles`: also the number of
  /// unsettled variables.
  Group& expect_group(std::uint64_t number, bool settles);
  /// The number of tiles of this rank.
  std::uint64_t count() const { return tiles_.size(); }
  /// Whether the mirror of the tile is stored, too.
  bool stores_mirror(const Tile& tile) const { return tile.mirrored && !to_.empty(); }
  /// Whether the sums of the tile's variables come, too.
  bool has_sums(const Tile& tile) const { return operands_.normalizes() && !tile.mirrored; }

  /// Writes some rows of the tile, counted from its first row, and adds their checksums and
  /// squares.
  void take(Tile& tile, Range rows, const std::byte* data);
  /// The same for the tile's part of N.
  void take_counts(Tile& tile, Range rows, const std::byte* data);
  /// Writes some rows of the tile's mirror, of C (`result` 0) or N (1).
  void take_mirror(Tile& tile, std::uint64_t result, Range rows, const std::byte* data);
  /// Counts parts of the tile that have reached the host. The last part completes the tile: the
  /// squares are added in the order of the rows, and a tile that is right is added to the journal.
  void complete(Tile& tile, std::uint64_t parts);
  /// Counts parts of the group that have reached the host. After the last part, the group is added
  /// to the journal if it is right, and if no second pass will compute its tiles again.
  void complete(Group& group, const Panels& panels, std::uint64_t parts);

  /// As in TileDrain.
  CheckSummary checks() const;
  std::uint64_t checksum() const;

 private:
  std::uint64_t checksum_of(const Tile& tile, const gemm::RowChecksums& sums,
                            std::uint64_t row) const;
  bool overflows(Tile& tile, std::uint64_t row, const std::byte* data) const;
  void add_group(std::uint64_t number);
  std::uint64_t journal_group(std::uint64_t number) const;
  FinishedTile finished(const Tile& tile) const;
  std::string failure(const Tile& tile) const;

  const Operands& operands_;
  const Plan& plan_;
  std::span<const io::RangeWriter> to_;
  io::Journal* journal_;
  ElementType type_;       ///< of C's elements
  std::size_t row_bytes_;  ///< bytes of a row of a tile, padded
  std::uint64_t results_;  ///< number of matrices that leave a tile

  std::vector<Tile> tiles_;                       ///< by plan.number_of()
  std::vector<Group> groups_;                     ///< by super-tile
  std::uint64_t runs_ = 0;                        ///< number of calls of begin()
  const Normalization* normalization_ = nullptr;  ///< of the current run
  Progress* progress_ = nullptr;                  ///< of the current run
  std::mutex counts_mutex_;
};

}  // namespace shardstream::workloads::product
