// The ways to cut the tiles of all ranks into super-tiles, and the sizes of these super-tiles.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/product/plan/shape.hpp"

namespace shardstream::workloads::product {

/// The cuts to consider. For each size of the largest super-tile there is one cut, the one with the
/// fewest passes. They are in ascending order of passes. The cuts that keep B come last.
std::vector<Cut> cuts_of(const Shape& shape);

/// The super-tile in pass `pass` of the ranks in one row and one column of the grid. Its columns go
/// from the first to the last one that any rank of the grid column needs.
SuperTile super_tile_of(const Shape& shape, const Cut& cut, std::uint64_t pass, std::uint64_t row,
                        std::uint64_t column);

/// The number of computed tiles.
std::uint64_t count_tiles(const Shape& shape, const SuperTile& super_tile);

/// The passes in which some rank computes a tile, in order.
std::vector<std::uint64_t> passes_with_tiles(const Shape& shape, const Cut& cut);

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

/// The super-tiles of a cut. If the product is symmetric, they are listed one by one. Otherwise
/// they are grouped by size, the largest first.
std::vector<Pass> passes_of(const Shape& shape, const Cut& cut);
/// The cost of passes_of(), in a unit of its own.
std::uint64_t work_of(const Shape& shape, const Cut& cut);
/// The limit for the sum of these costs, once a cut that fits has been found: some tenths of a
/// second.
inline constexpr std::uint64_t max_work = 4'000'000;

/// The maxima over all passes.
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
