// A tile of C that has passed its check, and its record in a journal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "io/output/checkpoint.hpp"

namespace shardstream::workloads::product {

/// A tile that has passed its check.
struct FinishedTile {
  std::uint64_t tile = 0;  ///< row * tile_columns + column, independent of ranks and super-tiles
  /// The tile's part of C's checksum, with that of its mirror if it has one: the sum of
  /// RowChecksums::matrix_checksum() of all rows.
  std::uint64_t weighted = 0;
  double squares = 0, worst = 0, detection_threshold = 0;
  std::uint64_t unchecked = 0;  ///< number of rows that could not be checked
  std::uint64_t constant = 0;   ///< number of zeros on C's diagonal, if C is centred or scaled
  /// Number of unchecked rows with finite factors whose sums of products overflow C's type.
  std::uint64_t overflowed = 0;
  /// Number of checked rows that are not finite after the last step: alpha and beta, or the
  /// corrections for means and scales.
  std::uint64_t infinite = 0;
};

/// The length of the record of a tile: io::FinishedPiece::record.
inline constexpr std::size_t tile_record = 8;

/// The record of a tile for the journal. `group`: as in io::FinishedPiece.
io::FinishedPiece piece_of(const FinishedTile& tile, std::optional<std::uint64_t> group);

/// The tile of a record; nothing if the record does not describe a tile that has passed its check.
std::optional<FinishedTile> tile_of(const io::FinishedPiece& piece);

}  // namespace shardstream::workloads::product
