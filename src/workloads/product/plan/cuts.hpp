// The ways to cut the tiles of all ranks into super-tiles, and the sizes of these super-tiles.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/product/plan/shape.hpp"

namespace shardstream::workloads::product {

/// All cuts that differ in their largest super-tile, each with the fewest passes, in ascending
/// order of passes; then the cuts that keep B.
std::vector<Cut> cuts_of(const Shape& shape);

/// The super-tile of pass `pass` of the ranks of a grid row and column. Its columns are those from
/// the first to the last that any rank of the grid column needs.
SuperTile super_tile_of(const Shape& shape, const Cut& cut, std::uint64_t pass, std::uint64_t row,
                        std::uint64_t column);

/// The number of computed tiles.
std::uint64_t count_tiles(const Shape& shape, const SuperTile& super_tile);

/// The passes in which some rank computes a tile, in order.
std::vector<std::uint64_t> passes_with_tiles(const Shape& shape, const Cut& cut);

/// Super-tiles of one size; each number is the maximum over all ranks.
struct Pass {
  std::uint64_t rows = 0, columns = 0;   ///< of tiles
  std::uint64_t tiles = 0, drained = 0;  ///< computed tiles; the same with their mirrors
  std::uint64_t uploaded_rows = 0;       ///< rows of tiles whose A panels are uploaded
  std::uint64_t transposed_rows = 0;     ///< rows of tiles whose A panels are made from B
  std::uint64_t count = 1;               ///< number of these super-tiles
  bool has_b = false;                    ///< B is kept from an earlier pass, and not uploaded
};

/// The super-tiles of a cut: one by one if the product is symmetric, else grouped by size, the
/// largest first.
std::vector<Pass> passes_of(const Shape& shape, const Cut& cut);
/// The cost of passes_of(), and the budget for a choice that has already found a cut that fits:
/// some tenths of a second.
std::uint64_t work_of(const Shape& shape, const Cut& cut);
inline constexpr std::uint64_t max_work = 4'000'000;

/// The maximum over all passes.
struct Extents {
  std::uint64_t rows = 0, columns = 0, tiles = 0, uploaded_rows = 0, transposed_rows = 0;
  std::uint64_t super_tiles = 0;
  std::uint64_t held_tiles = 0;  ///< tiles whose accumulators are held at once
  bool keeps_b = false;
};
Extents extents_of(const Cut& cut, const std::vector<Pass>& passes);
/// A lower bound of extents_of() that is fast to compute.
Extents min_extents(const Shape& shape, const Cut& cut);

}  // namespace shardstream::workloads::product
