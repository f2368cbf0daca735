// A finished tile of C as a checkpoint keeps it: its record in a journal, and its elements in a
// part file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/descriptor.hpp"
#include "core/shard.hpp"
#include "io/checkpoint.hpp"

namespace shardstream::workloads {

/// A tile that has passed its check.
struct FinishedTile {
  std::uint64_t tile = 0;  ///< row * tile_columns + column, whatever the ranks and super-tiles are
  /// The checksum of its elements, and of its mirror's if it has one: the sum of each element's
  /// bits times its weight.
  std::uint64_t weighted = 0;
  double squares = 0, worst = 0, detection_threshold = 0;
  std::uint64_t unchecked = 0;  ///< rows whose operands are not all finite
};

/// Numbers in the record of a tile.
inline constexpr std::size_t tile_record = 5;

/// `group`: as in io::FinishedPiece.
io::FinishedPiece piece_of(const FinishedTile& tile, std::optional<std::uint64_t> group);

/// Nothing if the record is not one of a tile that has passed its check.
std::optional<FinishedTile> tile_of(const io::FinishedPiece& piece);

/// Reads elements of finished tiles from the part files. After a crash of the machine these may
/// hold anything: a tile counts only if its checksum is that of its FinishedTile; else it is
/// computed again. Thread-safe.
class CheckpointReader {
 public:
  /// Opens the part files; a file that is not a run's of this user gives no elements. `checkpoint`
  /// must outlive this. C's rows have `columns` elements of `element` bytes.
  CheckpointReader(const io::Checkpoint& checkpoint, std::uint64_t columns, std::uint64_t element);

  /// Reads a rectangle of C from the part file of `run`, its rows `pitch` bytes apart at `out`.
  /// False if the file cannot give it, or C was not stored.
  bool read(std::size_t run, Range rows, Range columns, std::byte* out, std::size_t pitch) const;

 private:
  const io::Checkpoint& checkpoint_;
  std::uint64_t columns_, element_;
  std::vector<Descriptor> parts_;  // one a run
};

}  // namespace shardstream::workloads
