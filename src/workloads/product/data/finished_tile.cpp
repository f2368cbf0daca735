#include "workloads/product/data/finished_tile.hpp"

#include <algorithm>
#include <bit>

namespace shardstream::workloads::product {

/// Records doubles as their bits, so that infinities and NaN survive.
io::FinishedPiece piece_of(const FinishedTile& tile, std::optional<std::uint64_t> group) {
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  const PairCounts& counts = tile.counts;
  io::FinishedPiece piece{
      .number = tile.tile,
      .group = group,
      .record = {tile.weighted, bits(tile.squares), bits(tile.worst),
                 bits(tile.detection_threshold), tile.unchecked, tile.overflowed, tile.infinite,
                 counts.weighted, counts.min, counts.max, counts.without_samples, counts.empty,
                 bits(tile.counts_squares)}};
  for (const VariableStatistics& of : tile.variables) {
    piece.record.insert(piece.record.end(), {bits(of.mean), bits(of.deviation), of.count});
  }
  return piece;
}

std::optional<FinishedTile> tile_of(const io::FinishedPiece& piece) {
  const auto& record = piece.record;
  if (record.size() < tile_record || (record.size() - tile_record) % variable_record != 0) {
    return std::nullopt;
  }
  FinishedTile tile{.tile = piece.number,
                    .weighted = record[0],
                    .squares = std::bit_cast<double>(record[1]),
                    .worst = std::bit_cast<double>(record[2]),
                    .detection_threshold = std::bit_cast<double>(record[3]),
                    .unchecked = record[4],
                    .overflowed = record[5],
                    .infinite = record[6],
                    .counts = {.weighted = record[7],
                               .min = record[8],
                               .max = record[9],
                               .without_samples = record[10],
                               .empty = record[11]},
                    .counts_squares = std::bit_cast<double>(record[12])};
  for (std::size_t i = tile_record; i < record.size(); i += variable_record) {
    tile.variables.push_back({.mean = std::bit_cast<double>(record[i]),
                              .deviation = std::bit_cast<double>(record[i + 1]),
                              .count = record[i + 2]});
  }
  const bool real = std::ranges::none_of(
      tile.variables, [](const VariableStatistics& of) { return of.deviation < 0; });
  // The sum of squares may be infinite or NaN, but not negative.
  const bool possible = real && tile.worst >= 0 && tile.worst <= 1 &&
                        !(tile.detection_threshold < 0) && !(tile.squares < 0) &&
                        tile.counts_squares >= 0;
  return possible ? std::optional(tile) : std::nullopt;
}

void CheckSummary::add(const FinishedTile& tile) {
  worst = std::max(worst, tile.worst);
  detection_threshold = std::max(detection_threshold, tile.detection_threshold);
  unchecked += tile.unchecked;
  checksum += tile.weighted;
  overflowed += tile.overflowed;
  infinite += tile.infinite;
  counts.add(tile.counts);
  squares.push_back({tile.tile, tile.squares, tile.counts_squares});
  for (const VariableStatistics& of : tile.variables) {
    variables.push_back({tile.tile, static_cast<std::uint64_t>(&of - tile.variables.data()), of});
  }
}

}  // namespace shardstream::workloads::product
