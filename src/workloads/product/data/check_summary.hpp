// The result of the checks of a rank's tiles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/product/data/finished_tile.hpp"

namespace shardstream::workloads::product {

/// The result of the checks of this rank's tiles in one repetition.
struct CheckSummary {
  std::string failure;  ///< empty: everything agrees
  double worst = 0;     ///< maximum of deviation / bound over all rows and tiles
  /// An error of one element that is larger than this is found, if its row is checked.
  double detection_threshold = 0;
  std::uint64_t unchecked = 0;  ///< number of rows of tiles that could not be checked
  std::uint64_t checksum = 0;   ///< RowChecksums::matrix_checksum() of all rows, mod 2^64
  std::uint64_t constant = 0;   ///< number of zeros on the diagonal of a normalized C
  std::uint64_t overflowed = 0, infinite = 0;  ///< sums of those of FinishedTile
  struct Squares {
    std::uint64_t tile;  ///< row * tile_columns + column
    double sum;          ///< sum of the squares of the elements of the tile and of its mirror
  };
  std::vector<Squares> squares;  ///< for this rank's tiles, in any order

  void add(const FinishedTile& tile);
};

}  // namespace shardstream::workloads::product
