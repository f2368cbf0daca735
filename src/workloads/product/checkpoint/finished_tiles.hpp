// Takes over the finished tiles of C of an interrupted run. Each tile has a record in a journal,
// and its elements are in a part file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/descriptor.hpp"
#include "core/log.hpp"
#include "core/shard.hpp"
#include "io/output/checkpoint.hpp"
#include "io/output/dataset_file.hpp"
#include "ranks/session.hpp"
#include "workloads/product/data/finished_tile.hpp"
#include "workloads/product/plan/product_plan.hpp"

namespace shardstream::workloads::product {

/// Reads elements of finished tiles from the part files. After a crash of the machine, a part file
/// may contain anything. So a tile is only used if its checksum is that of its FinishedTile;
/// otherwise it is computed again. Thread-safe.
class CheckpointReader {
 public:
  /// Opens the part files. A file that is no part file of this user gives no elements. `checkpoint`
  /// must outlive this object. The rows of each matrix have `columns` elements of `element` bytes.
  CheckpointReader(const io::Checkpoint& checkpoint, std::uint64_t columns, std::uint64_t element);

  /// Reads a rectangle of matrix number `matrix` from the part file of run number `run` to `out`,
  /// with a pitch of `pitch` bytes. Returns false if the file does not contain the rectangle, or
  /// the matrix was not stored.
  bool read(std::size_t run, std::size_t matrix, Range rows, Range columns, std::byte* out,
            std::size_t pitch) const;

 private:
  const io::Checkpoint& checkpoint_;
  std::uint64_t columns_, element_;
  std::vector<Descriptor> parts_;  // one per run
};

/// Takes over the super-tiles that `earlier` contains completely, and returns this rank's tiles of
/// them. It writes the tiles to `to` with `threads` threads (one writer for C and, if the product
/// is pairwise, one for N; none: they are not stored), and adds them to the journal. It removes
/// these super-tiles from the plan, the same ones on all ranks. A super-tile stays in the plan if
/// the elements of a tile do not match their checksum. If C is stored, the norms of the tiles are
/// computed from the elements. Rank 0 first logs the number of tiles. Collective; throws
/// AgreedError if the tiles cannot be written.
std::vector<FinishedTile> take_over(const ranks::Session& session, const io::Checkpoint& earlier,
                                    std::span<const io::RangeWriter> to, io::Journal& journal,
                                    Log& log, unsigned threads, Plan& plan);

/// The number of tiles of `earlier` that a run with this plan keeps, on all ranks, if no tile is
/// corrupted.
std::uint64_t count_kept(const Plan& plan, const io::Checkpoint& earlier);

/// An upper bound of a rank's journal: `tiles` of them.
io::JournalExtent journal_extent(const Plan& plan, std::uint64_t tiles);

/// A sentence that `kept` of `finished` tiles are kept.
std::string kept_tiles(std::uint64_t kept, std::uint64_t finished);

}  // namespace shardstream::workloads::product
