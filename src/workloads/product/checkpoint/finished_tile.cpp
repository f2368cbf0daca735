#include "workloads/product/checkpoint/finished_tile.hpp"

#include <bit>

#include "core/error.hpp"
#include "io/run_files.hpp"

namespace shardstream::workloads {

/// Doubles are recorded as their bits, so that infinities and NaN survive.
io::FinishedPiece piece_of(const FinishedTile& tile, std::optional<std::uint64_t> group) {
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  return {.number = tile.tile,
          .group = group,
          .record = {tile.weighted, bits(tile.squares), bits(tile.worst),
                     bits(tile.detection_threshold), tile.unchecked}};
}

std::optional<FinishedTile> tile_of(const io::FinishedPiece& piece) {
  const auto& record = piece.record;
  if (record.size() != tile_record) return std::nullopt;
  const FinishedTile tile{.tile = piece.number,
                          .weighted = record[0],
                          .squares = std::bit_cast<double>(record[1]),
                          .worst = std::bit_cast<double>(record[2]),
                          .detection_threshold = std::bit_cast<double>(record[3]),
                          .unchecked = record[4]};
  // The sum of squares that are not finite may be anything but negative.
  const bool possible =
      tile.worst >= 0 && tile.worst <= 1 && !(tile.detection_threshold < 0) && !(tile.squares < 0);
  return possible ? std::optional(tile) : std::nullopt;
}

CheckpointReader::CheckpointReader(const io::Checkpoint& checkpoint, std::uint64_t columns,
                                   std::uint64_t element)
    : checkpoint_(checkpoint), columns_(columns), element_(element) {
  for (const auto& run : checkpoint.runs) {
    const io::RunFile part{.path = run.part, .uuid = {}, .kind = io::RunFile::Kind::part};
    parts_.push_back(run.offset ? io::open_run_file(part, io::Locking::leave).file : Descriptor());
  }
}

bool CheckpointReader::read(std::size_t run, Range rows, Range columns, std::byte* out,
                            std::size_t pitch) const {
  const Descriptor& part = parts_.at(run);
  if (!part.valid()) return false;
  const std::uint64_t offset = *checkpoint_.runs[run].offset;
  expect(columns.first <= columns_ && columns.count <= columns_ - columns.first,
         "a rectangle ends inside its matrix");
  const std::uint64_t row_bytes = columns.count * element_;
  const std::uint64_t end = saturating_product(rows.end(), columns_ * element_);
  if (offset > INT64_MAX || end > INT64_MAX - offset) return false;  // no file's
  for (std::uint64_t row = 0; row < rows.count; ++row) {
    const std::uint64_t element = (rows.first + row) * columns_ + columns.first;
    const std::int64_t got =
        part.read_at(offset + element * element_, out + row * pitch, row_bytes);
    if (got != static_cast<std::int64_t>(row_bytes)) return false;
  }
  return true;
}

}  // namespace shardstream::workloads
