// What a product leaves beside its result while it runs, so that a later run can resume from it.
// Each rank has a journal, `.NAME.UUID.RANK.checkpoint`: lines of JSON, each behind a checksum of
// all the journal's text up to its end. The first line says what the product is; then comes a line
// for each finished tile, and one for each group of tiles whose panels the rank has found to be
// right. The tiles' elements are in the run's part file, `.NAME.UUID.part`.
#pragma once

#include <boost/crc.hpp>
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
#include "io/run_files.hpp"

namespace shardstream::io {

/// What a product is, as named values: two with the same have the same bits in every tile.
using Fingerprint = std::vector<std::pair<std::string, std::string>>;

/// A tile of C that is finished: checked, and in the part file where C is stored.
struct FinishedTile {
  std::uint64_t tile = 0;  ///< its number, whatever the ranks and super-tiles are
  /// It counts when every rank has found the panels of this group right; none: it was taken over
  /// from an earlier run, and counts.
  std::optional<std::uint64_t> group = {};
  /// The checksum of its elements, and of its mirror's if it has one: the sum of each element's
  /// bits times its weight.
  std::uint64_t weighted = 0;
  double squares = 0, worst = 0, smallest_caught = 0;
  std::uint64_t unchecked = 0;
};

/// What earlier runs of a product have finished.
struct Checkpoint {
  struct Run {
    std::filesystem::path part;
    std::optional<std::uint64_t> offset;  ///< of C in `part`, in bytes; none: it is not stored
    Fingerprint fingerprint;
  };
  struct Tile : FinishedTile {
    std::size_t run = 0;  ///< which of `runs` has it
  };
  std::vector<Run> runs;
  std::uint64_t restarts = 0;  ///< the maximum of all `runs`
  std::vector<Tile> tiles;     ///< by number, each once
};

/// Reads elements of finished tiles from the part files. What a crash of the machine has left of
/// them may be anything: a tile counts only if its checksum is that of its FinishedTile. Else it is
/// computed again. Thread-safe.
class CheckpointReader {
 public:
  /// Opens the part files; a file that is not a run's of this user gives no elements. `checkpoint`
  /// must outlive this. C's rows have `columns` elements of `element` bytes.
  CheckpointReader(const Checkpoint& checkpoint, std::uint64_t columns, std::uint64_t element);

  /// Reads a rectangle of C, its rows `pitch` bytes apart at `out`. False if the file cannot give
  /// it, or C was not stored.
  bool read(const Checkpoint::Tile& tile, Range rows, Range columns, std::byte* out,
            std::size_t pitch) const;

 private:
  const Checkpoint& checkpoint_;
  std::uint64_t columns_, element_;
  std::vector<Descriptor> parts_;  // one a run
};

/// CRC-64/XZ of a journal's lines so far, without their checksums and ends: a line that is changed,
/// missing or in another place makes all that follow invalid.
class JournalChecksum {
 public:
  /// Adds a line and returns the checksum.
  std::uint64_t add(std::string_view json);

 private:
  boost::crc_optimal<64, 0x42f0e1eba9ea3693, UINT64_MAX, UINT64_MAX, true, true> crc_;
};

/// This rank's journal. Each line is one write() at the end of the file, which survives the end of
/// the process, however that comes. A journal that can no longer be written does not end the run: a
/// warning says so, and what was written until then stays.
class Journal {
 public:
  /// Touches no file yet. `matrix` is where C goes, null if it is not stored. `on_checkpoint` is
  /// called once, by whoever then calls add_group() or begin(), as soon as there may be something
  /// that a later run can go on from. `log` must outlive it.
  Journal(const std::filesystem::path& result, const std::string& uuid, int rank, int ranks,
          const RangeWriter* matrix, Log& log, std::function<void()> on_checkpoint);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Makes the file, with room on disk for `tiles` and `groups`. To be called once, before anything
  /// is added. Throws UsageError, and makes nothing, if `earlier` (null: none) is the checkpoint of
  /// another product (it names the first value that differs), or if the disk has no room. Whether C
  /// is stored need not be in `fingerprint`: that is compared here.
  void begin(Fingerprint fingerprint, const Checkpoint* earlier, std::uint64_t tiles,
             std::uint64_t groups);

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
  void append(const std::string& json);
  void give_up(const std::string& what, const std::string& reason);
  void tell();

  std::filesystem::path path_;
  std::string run_;
  int rank_, ranks_;
  std::optional<std::uint64_t> offset_;
  std::uint64_t restarts_ = 0;
  Log& log_;
  std::function<void()> on_checkpoint_;
  bool begun_ = false;
  mutable std::mutex mutex_;  // guards what follows
  Descriptor file_;           // not valid once writing has failed
  JournalChecksum checksum_;  // of all lines so far
  std::uint64_t bytes_ = 0;
  bool told_ = false;
};

/// The journals and part files that earlier runs of one result have left. While this lives, no
/// other run takes them. For one rank. If the file system has no locks, runs that are still going
/// count as gone if they have finished something, and are left alone otherwise.
class EarlierRuns {
 public:
  /// Looks beside `result` for runs that are gone. Removes what is of no use any more: runs without
  /// a finished tile, and journals without a part file.
  explicit EarlierRuns(const std::filesystem::path& result);

  /// Another run is still writing the same result, or its last ranks are just ending.
  bool contested() const { return contested_; }

  /// The journals of all runs that are gone, for parse_checkpoint(): one rank reads, and all ranks
  /// get the same.
  const std::string& journals() const { return journals_; }

  /// Sentences on files that have the name of a run's and are none, and were left alone.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Removes them all: a run has taken their tiles over, or is not to.
  void remove();

 private:
  void look_at(std::span<const RunFile> files);

  struct Run {
    std::vector<std::filesystem::path> paths;
    std::vector<Descriptor> files;  // with the locks that their writers held
  };
  std::filesystem::path result_;
  std::vector<Run> runs_;
  std::string journals_;
  std::vector<std::string> warnings_;
  bool contested_ = false;
};

/// What journals say is finished; nothing if that is nothing. A torn or damaged line, and what
/// follows it in its journal, does not count.
std::optional<Checkpoint> parse_checkpoint(const std::filesystem::path& result,
                                           const std::string& journals);

/// What interrupted runs of `result` have left. Takes and removes nothing.
struct Remains {
  std::optional<Checkpoint> checkpoint;    ///< of runs that are still going, too
  bool contested = false;                  ///< another run is still writing the same result
  std::vector<std::string> warnings = {};  ///< as EarlierRuns::warnings()
};
Remains look_for_remains(const std::filesystem::path& result);

/// Whether the run `uuid` has finished a tile that a later run of `result` can take over.
bool has_finished_tiles(const std::filesystem::path& result, const std::string& uuid);

/// Throws UsageError, naming the first value that differs, if the checkpoint is of another product
/// than `now`. Values named by one of `unknown` are not compared. `stored`: output.store.
void expect_same_product(const Checkpoint& earlier, const Fingerprint& now, bool stored,
                         std::span<const std::string_view> unknown);

/// The maximum size of the journal of a rank with so many tiles and groups, in bytes.
std::uint64_t journal_bytes(const Fingerprint& product, std::uint64_t tiles, std::uint64_t groups);

/// Removes the journals of all ranks of the run `uuid`.
void remove_journals(const std::filesystem::path& result, const std::string& uuid);

}  // namespace shardstream::io
