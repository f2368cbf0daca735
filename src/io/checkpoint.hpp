// What a product leaves beside its result while it runs, so that one that was interrupted can go
// on. Each rank has a journal, `.NAME.UUID.RANK.checkpoint`: lines of JSON, the first of which says
// what the product is; then one for each finished tile, and one for each group of tiles whose
// panels the rank has found to be right. The tiles' elements are in the run's part file,
// `.NAME.UUID.part`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/descriptor.hpp"
#include "core/log.hpp"
#include "core/shard.hpp"
#include "io/dataset_file.hpp"

namespace shardstream::io {

/// What a product is, as named values: two with the same have the same bits in every tile.
using Fingerprint = std::vector<std::pair<std::string, std::string>>;

/// A tile of C that is finished: checked, and in the part file where C is stored.
struct FinishedTile {
  std::uint64_t tile = 0;  ///< its number, whatever the ranks and super-tiles are
  /// It counts when every rank has found the panels of this group right; none: it was taken over
  /// from an earlier run, and counts.
  std::optional<std::uint64_t> group = {};
  /// The sum of its elements' bits, each times its weight, which tells what was stored from rot;
  /// its mirror's too, if it has one.
  std::uint64_t weighted = 0;
  double squares = 0, worst = 0, smallest_caught = 0;
  std::uint64_t unchecked = 0;
};

/// What earlier runs of a product have finished.
struct Checkpoint {
  struct Run {
    std::filesystem::path part;
    std::optional<std::uint64_t> offset;     ///< of C in `part`, in bytes; none: it is not stored
    std::uint64_t columns = 0, element = 0;  ///< of C; bytes of one of its elements
    Fingerprint fingerprint;
  };
  struct Tile : FinishedTile {
    std::size_t run = 0;  ///< which of `runs` has it
  };
  std::vector<Run> runs;
  std::uint64_t restarts = 0;  ///< the most of any of `runs`
  std::vector<Tile> tiles;     ///< by number, each once
};

/// Reads elements of finished tiles from the part files. What a crash of the machine has left of
/// them may be anything: a tile is taken over only if its sums are those of its FinishedTile, and
/// else computed again. Thread-safe.
class CheckpointReader {
 public:
  /// `checkpoint` must outlive it.
  explicit CheckpointReader(const Checkpoint& checkpoint);

  /// Reads a rectangle of C, its rows `stride` bytes apart at `out`. False when the file cannot
  /// give it, or C was not stored: the tile is to be computed again.
  bool read(const Checkpoint::Tile& tile, Range rows, Range columns, std::byte* out,
            std::size_t stride) const;

 private:
  const Checkpoint& checkpoint_;
  std::vector<Descriptor> parts_;  // one a run
};

/// What the journal of a rank is called in the run `uuid`; known beforehand, as part_path_of() is.
std::filesystem::path journal_path_of(const std::filesystem::path& result, const std::string& uuid,
                                      int rank);

/// This rank's journal. Each line is one write() at the end of the file, which survives the end of
/// the process, however that comes. A journal that cannot be written never ends the run: a warning
/// says so, and what was written until then stays.
class Journal {
 public:
  /// Touches no file yet. `matrix` is where C goes, null if it is not stored. `on_checkpoint` is
  /// called once, by whoever then calls add_group() or begin(), as soon as there may be something
  /// that a later run can go on from. `log` must outlive it.
  Journal(const std::filesystem::path& result, const std::string& uuid, int rank, int ranks,
          const RangeWriter* matrix, Log& log, std::function<void()> on_checkpoint);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// To be called once, before anything is added. Throws UsageError, and begins nothing, when
  /// `earlier` (null: none) is the checkpoint of another product: it names the first value that
  /// differs. Whether C is stored need not be in `fingerprint`: that is compared here.
  void begin(Fingerprint fingerprint, const Checkpoint* earlier);

  /// One more than the checkpoint has that begin() was given; 0 without one.
  std::uint64_t restarts() const { return restarts_; }

  /// `tile` is finished: all its elements have been written. Thread-safe.
  void add(const FinishedTile& tile);
  /// This rank has found its panels of all tiles of `group` right, if it has any; every rank must
  /// say so of every group. Thread-safe.
  void add_group(std::uint64_t group);

  /// Returns when all that was added is on disk; false when something of it is not. Thread-safe.
  bool sync();

 private:
  void append(const std::string& line);
  void give_up(const std::string& what, int error);
  void tell();

  std::filesystem::path path_;
  std::string run_;
  int rank_, ranks_;
  std::optional<std::uint64_t> offset_;
  std::uint64_t columns_ = 0, element_ = 0, restarts_ = 0;
  Log& log_;
  std::function<void()> on_checkpoint_;
  bool begun_ = false;
  mutable std::mutex mutex_;  // guards what follows
  Descriptor file_;           // not valid once writing has failed
  std::uint64_t bytes_ = 0;
  bool told_ = false;
};

/// The journals and part files that earlier runs of one result have left. While this lives, no
/// other run takes them. For one rank. Where the file system has no locks, runs that still go on
/// are taken for gone if they have finished something, and else left alone.
class EarlierRuns {
 public:
  /// Looks beside `result` for runs that are gone. What is of no use any more is removed: journals
  /// whose part file is gone, and runs without a finished tile.
  explicit EarlierRuns(const std::filesystem::path& result);

  /// A run that still goes on writes the same result, or its last ranks are just ending.
  bool contested() const { return contested_; }

  /// All journals of those that are gone, for parse_checkpoint(): one rank reads, and all ranks get
  /// the same.
  const std::string& journals() const { return journals_; }

  /// When nobody needs them any more: a run has taken their tiles over, or is not to. Removes them.
  void remove();

 private:
  struct Run {
    std::string uuid;
    Descriptor part;  // holds the lock that its writer held
  };
  void look_at(const std::string& uuid);

  std::filesystem::path result_;
  std::vector<Run> runs_;
  std::string journals_;
  bool contested_ = false;
};

/// What journals say is finished; nothing where that is nothing. A torn or broken line, and what
/// stands behind it in its journal, is passed over.
std::optional<Checkpoint> parse_checkpoint(const std::filesystem::path& result,
                                           const std::string& journals);

/// What interrupted runs of `result` have left, without taking or removing any of it.
struct Remains {
  std::optional<Checkpoint> checkpoint;  ///< also what a run that still goes on has finished so far
  bool contested = false;                ///< a run that still goes on writes the same result
};
Remains look_for_remains(const std::filesystem::path& result);

/// Throws UsageError, naming the first value that differs, when the checkpoint is of another
/// product than `now`. What is named by one of `unknown` is not compared. `stored`: output.store.
void expect_same_product(const Checkpoint& earlier, const Fingerprint& now, bool stored,
                         std::span<const std::string_view> unknown);

/// About what the journals of so many ranks, tiles and groups take on disk, in bytes.
std::uint64_t journal_bytes(const Fingerprint& product, std::uint64_t ranks, std::uint64_t tiles,
                            std::uint64_t groups);

/// Removes the journals of all ranks of the run `uuid`.
void remove_journals(const std::filesystem::path& result, const std::string& uuid);

}  // namespace shardstream::io
