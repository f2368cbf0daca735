// The order in which a rank computes its tiles: how the tiles of all ranks are cut into
// super-tiles, the sizes of these super-tiles, and the batches that are in device memory at once.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "workloads/product/plan/shape.hpp"

namespace shardstream::workloads::product {

/// How every rank cuts its tiles into super-tiles: by passes over its rows and columns.
struct Cut {
  std::uint64_t row_passes = 1, column_passes = 1;
  /// If first_rows is 0, all row passes share the rows equally. Otherwise the first pass has the
  /// fraction first_rows / first_of of the rows, and the other passes share the rest equally.
  std::uint64_t first_rows = 0, first_of = 0;
  /// Whether B's panels stay on the device after the first super-tile. Then every tile has its own
  /// accumulator, and a rank uploads everything only once. Tiles leave while later rows of A
  /// arrive.
  bool keeps_b = false;

  std::uint64_t passes() const { return saturating_product(row_passes, column_passes); }
};

/// Super-tiles of one size. Each number is the maximum over all ranks.
struct Pass {
  std::uint64_t rows = 0, columns = 0;  ///< rows and columns of tiles
  std::uint64_t tiles = 0;              ///< computed tiles
  std::uint64_t drained = 0;            ///< computed tiles and their mirrors
  std::uint64_t uploaded_rows = 0;      ///< rows of tiles whose A panels are uploaded
  std::uint64_t transposed_rows = 0;    ///< rows of tiles whose A panels are made from B
  std::uint64_t count = 1;              ///< number of super-tiles of this size
  bool has_b = false;                   ///< B is on the device from an earlier pass
};

/// The sizes of the super-tiles of a cut.
struct CutSizes {
  /// The maxima over all super-tiles of all ranks, as in Pass.
  std::uint64_t rows = 0, columns = 0, tiles = 0, uploaded_rows = 0, transposed_rows = 0;
  std::uint64_t super_tiles = 0;
  /// The number of tiles that have accumulators: those of a super-tile or, if B is kept, all tiles
  /// of a rank.
  std::uint64_t held_tiles = 0;
  bool keeps_b = false;
};

/// The order of super-tiles and batches. The same on every rank.
struct Schedule {
  Cut cut;
  CutSizes sizes;
  /// The numbers of the passes in which some rank computes a tile, in ascending order. Each is a
  /// super-tile. The number of a pass is row pass * column_passes + column pass.
  std::vector<std::uint64_t> passes;
  std::uint64_t ring_batches = 0;  ///< batches in device memory: 2 to 16, or all if there are fewer
  /// The number of last batches of a super-tile that are computed tile by tile: all of them for one
  /// tile, then for the next tile. So tiles leave while others are computed. It is 1 to
  /// ring_batches, and all these batches are in the last own segment.
  std::uint64_t window = 1;

  std::uint64_t super_tiles() const { return passes.size(); }
};

/// The super-tile in pass `pass` of the ranks in one row and one column of the grid. Its columns go
/// from the first to the last one that any rank of the grid column needs.
SuperTile super_tile_of(const Shape& shape, const Cut& cut, std::uint64_t pass, std::uint64_t row,
                        std::uint64_t column);

/// The passes in which some rank computes a tile, in order.
std::vector<std::uint64_t> passes_with_tiles(const Shape& shape, const Cut& cut);

/// The super-tiles of a cut. If the product is symmetric, they are listed one by one. Otherwise
/// they are grouped by size, the largest first.
std::vector<Pass> passes_of(const Shape& shape, const Cut& cut);

CutSizes sizes_of(const Cut& cut, const std::vector<Pass>& passes);
/// A lower bound of sizes_of() that is fast to compute.
CutSizes min_sizes(const Shape& shape, const Cut& cut);

/// The number of batches, at most 13, that all readers of a rank fill at the same time.
std::uint64_t batches_of_readers(const Shape& shape, const CutSizes& sizes);

/// The cuts to consider. For each size of the largest super-tile there is one cut, the one with the
/// fewest passes. They are in ascending order of passes. The cuts that keep B come last.
std::vector<Cut> cuts_of(const Shape& shape);

/// Calls `examine` for the cuts of cuts_of(), in their order, if their min_sizes() `may_fit`.
/// `examine` returns whether the cut fits. The passes of a symmetric product take long to list, so
/// the search stops after some tenths of a second, if a cut that fits has been found.
void search_cuts(const Shape& shape, const std::function<bool(const CutSizes&)>& may_fit,
                 const std::function<bool(const Cut&)>& examine);

}  // namespace shardstream::workloads::product
