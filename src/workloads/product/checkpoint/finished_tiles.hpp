// Finished tiles of C that a product takes over from an interrupted run. Each has a record in a
// journal, and elements in a part file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/descriptor.hpp"
#include "core/log.hpp"
#include "core/shard.hpp"
#include "io/output/checkpoint.hpp"
#include "io/output/dataset_file.hpp"
#include "launch/session.hpp"
#include "workloads/product/operands.hpp"
#include "workloads/product/plan/plan.hpp"

namespace shardstream::workloads::product {

/// A tile that has passed its check.
struct FinishedTile {
  std::uint64_t tile = 0;  ///< row * tile_columns + column, independent of ranks and super-tiles
  /// The checksum of its elements, and of its mirror's if it has one: the sum of each element's
  /// bits times its weight.
  std::uint64_t weighted = 0;
  double squares = 0, worst = 0, detection_threshold = 0;
  std::uint64_t unchecked = 0;  ///< rows whose operands are not all finite
  std::uint64_t constant = 0;   ///< zeros on C's diagonal, if it is centred or scaled
};

/// Numbers in the record of a tile.
inline constexpr std::size_t tile_record = 6;

/// `group`: as in io::FinishedPiece.
io::FinishedPiece piece_of(const FinishedTile& tile, std::optional<std::uint64_t> group);

/// Nothing if the record does not describe a tile that has passed its check.
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
  /// False if the file does not have it, or C was not stored.
  bool read(std::size_t run, Range rows, Range columns, std::byte* out, std::size_t pitch) const;

 private:
  const io::Checkpoint& checkpoint_;
  std::uint64_t columns_, element_;
  std::vector<Descriptor> parts_;  // one per run
};

/// Takes over the super-tiles of which `earlier` has every tile: writes them to `to` (null: C is
/// not stored) with `threads` threads, adds their tiles to the journal, and removes the super-tiles
/// from the plan, the same on all ranks. Rank 0 first logs the number of tiles. Tiles whose
/// elements do not match their checksum stay in the plan. Returns this rank's tiles; if C is
/// stored, their norms come from its elements. Collective; throws AgreedError if they cannot be
/// written.
std::vector<FinishedTile> take_over(const launch::Session& session, const Operands& operands,
                                    const io::Checkpoint& earlier, const io::RangeWriter* to,
                                    io::Journal& journal, Log& log, unsigned threads, Plan& plan);

/// The number of tiles of `earlier` that a run with the ranks' `plans` keeps, if none is corrupted.
std::uint64_t count_kept(const std::vector<Plan>& plans, const io::Checkpoint& earlier);

/// The sentence that says so.
std::string kept_tiles(std::uint64_t kept, std::uint64_t finished);

}  // namespace shardstream::workloads::product
