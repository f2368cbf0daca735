// A tile of C that has passed its check, its record in a journal, and the result of the checks of
// all tiles of a rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/output/checkpoint.hpp"
#include "workloads/product/data/pair_counts.hpp"

namespace shardstream::workloads::product {

/// The statistics of a variable.
struct VariableStatistics {
  double mean = 0;          ///< only if the variable is centred
  double deviation = 0;     ///< its standard deviation; if it is not centred, its root mean square
  std::uint64_t count = 0;  ///< number of samples

  /// Whether all samples are equal; 0 if the variable is not centred.
  bool is_constant() const { return deviation == 0; }
  bool is_empty() const { return count == 0; }
  bool operator==(const VariableStatistics&) const = default;
};

/// A tile that has passed its check.
struct FinishedTile {
  std::uint64_t tile = 0;  ///< row * tile_columns + column, independent of ranks and super-tiles
  /// The tile's part of C's checksum, with that of its mirror if it has one: the sum of
  /// RowChecksums::matrix_checksum() of all rows.
  std::uint64_t weighted = 0;
  double squares = 0, worst = 0, detection_threshold = 0;
  std::uint64_t unchecked = 0;  ///< number of rows that could not be checked
  /// Number of unchecked rows with finite factors whose sums of products overflow C's type.
  std::uint64_t overflowed = 0;
  /// Number of checked rows that are not finite after the last step: alpha and beta, or the
  /// corrections for means and scales.
  std::uint64_t infinite = 0;
  /// Only for a pairwise product: the tile's part of N, with that of its mirror in the checksum,
  /// and the sum of the squares of its elements.
  PairCounts counts = {};
  double counts_squares = 0;
  /// Those of the tile's rows if the tile is on C's diagonal, and the product is normalized or
  /// pairwise. Only the count is known if it is not normalized.
  std::vector<VariableStatistics> variables = {};
};

/// The length of the record of a tile without variables (io::FinishedPiece::record), and the
/// further length for each variable.
inline constexpr std::size_t tile_record = 13, variable_record = 3;

/// The record of a tile for the journal. `group`: as in io::FinishedPiece.
io::FinishedPiece piece_of(const FinishedTile& tile, std::optional<std::uint64_t> group);

/// The tile of a record; nothing if the record does not describe a tile that has passed its check.
std::optional<FinishedTile> tile_of(const io::FinishedPiece& piece);

/// The result of the checks of this rank's tiles in one repetition.
struct CheckSummary {
  std::string failure;  ///< empty: everything agrees
  double worst = 0;     ///< maximum of deviation / bound over all rows and tiles
  /// An error of one element that is larger than this is found, if its row is checked.
  double detection_threshold = 0;
  std::uint64_t unchecked = 0;  ///< number of rows of tiles that could not be checked
  std::uint64_t checksum = 0;   ///< RowChecksums::matrix_checksum() of all rows, mod 2^64
  std::uint64_t overflowed = 0, infinite = 0;  ///< sums of those of FinishedTile
  struct Squares {
    std::uint64_t tile;  ///< row * tile_columns + column
    double sum;          ///< sum of the squares of the elements of the tile and of its mirror
    double of_counts;    ///< the same for N, if the product is pairwise
  };
  std::vector<Squares> squares;  ///< for this rank's tiles, in any order
  PairCounts counts;             ///< if the product is pairwise
  struct OfVariable {
    std::uint64_t tile, row;  ///< of C's diagonal; the row of the tile
    VariableStatistics statistics;
  };
  std::vector<OfVariable> variables;  ///< in this rank's tiles, in any order

  void add(const FinishedTile& tile);
};

}  // namespace shardstream::workloads::product
