#include "workloads/product/data/finished_tile.hpp"

#include <algorithm>
#include <bit>

namespace shardstream::workloads::product {

/// Records doubles as their bits, so that infinities and NaN survive.
io::FinishedPiece piece_of(const FinishedTile& tile, std::optional<std::uint64_t> group) {
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  return {.number = tile.tile,
          .group = group,
          .record = {tile.weighted, bits(tile.squares), bits(tile.worst),
                     bits(tile.detection_threshold), tile.unchecked, tile.constant, tile.overflowed,
                     tile.infinite}};
}

std::optional<FinishedTile> tile_of(const io::FinishedPiece& piece) {
  const auto& record = piece.record;
  if (record.size() != tile_record) return std::nullopt;
  const FinishedTile tile{.tile = piece.number,
                          .weighted = record[0],
                          .squares = std::bit_cast<double>(record[1]),
                          .worst = std::bit_cast<double>(record[2]),
                          .detection_threshold = std::bit_cast<double>(record[3]),
                          .unchecked = record[4],
                          .constant = record[5],
                          .overflowed = record[6],
                          .infinite = record[7]};
  // The sum of squares may be infinite or NaN, but not negative.
  const bool possible =
      tile.worst >= 0 && tile.worst <= 1 && !(tile.detection_threshold < 0) && !(tile.squares < 0);
  return possible ? std::optional(tile) : std::nullopt;
}

void CheckSummary::add(const FinishedTile& tile) {
  worst = std::max(worst, tile.worst);
  detection_threshold = std::max(detection_threshold, tile.detection_threshold);
  unchecked += tile.unchecked;
  checksum += tile.weighted;
  constant += tile.constant;
  overflowed += tile.overflowed;
  infinite += tile.infinite;
  squares.push_back({tile.tile, tile.squares});
}

}  // namespace shardstream::workloads::product
