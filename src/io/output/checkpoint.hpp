// What a run leaves beside its result while it works, so that a later run can resume from it. Each
// rank has a journal, `.NAME.UUID.RANK.checkpoint`: lines of JSON, each behind a checksum of all
// the journal's text up to its end. The first line says what is computed. A line follows for each
// finished piece of the result, and one for each group of pieces whose inputs the rank has
// verified. The pieces' elements are in the run's part file, `.NAME.UUID.part`.
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
#include "io/output/dataset_file.hpp"
#include "io/output/run_files.hpp"

namespace shardstream::io {

/// What is computed, as named values: equal fingerprints have the same bits in every piece.
using Fingerprint = std::vector<std::pair<std::string, std::string>>;

/// A piece of the result that is finished: checked, and in the part file if the result is stored.
struct FinishedPiece {
  std::uint64_t number = 0;  ///< the same on any number of ranks
  /// The piece counts once every rank has verified this group; none: it was taken over from an
  /// earlier run, and counts.
  std::optional<std::uint64_t> group = {};
  std::vector<std::uint64_t> record = {};  ///< the workload's own, not interpreted here
};

/// What earlier runs of one computation have finished.
struct Checkpoint {
  struct Run {
    std::filesystem::path part;
    std::optional<std::uint64_t> offset;  ///< of the result in `part`, in bytes; none: not stored
    Fingerprint fingerprint;
  };
  struct Piece : FinishedPiece {
    std::size_t run = 0;  ///< index into `runs`: its part file has the elements
  };
  std::vector<Run> runs;
  std::uint64_t restarts = 0;  ///< the maximum of all `runs`
  std::vector<Piece> pieces;   ///< by number, each once
};

/// The maximum extent of a rank's journal.
struct JournalExtent {
  std::uint64_t pieces = 0, groups = 0, record = 0;  ///< record: numbers in a piece's
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
  /// Touches no file yet. `matrix` is where the result goes, null if it is not stored.
  /// `on_checkpoint` is called once, from add_group() or begin(), as soon as a later run may be
  /// able to resume from the journal. `log` must outlive it.
  Journal(const std::filesystem::path& result, const std::string& uuid, int rank, int ranks,
          const RangeWriter* matrix, Log& log, std::function<void()> on_checkpoint);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Makes the file, with room on disk for `extent`. To be called once, before anything is added.
  /// Throws UsageError, and makes nothing, if `earlier` (null: none) is the checkpoint of another
  /// computation (it names the first value that differs), or if the disk has no room. Whether the
  /// result is stored need not be in `fingerprint`: that is compared here.
  void begin(Fingerprint fingerprint, const Checkpoint* earlier, const JournalExtent& extent);

  /// One more than the checkpoint has that begin() was given; 0 without one.
  std::uint64_t restarts() const { return restarts_; }

  /// `piece` is finished: all its elements have been written. Thread-safe.
  void add(const FinishedPiece& piece);
  /// This rank has verified its part of the inputs of `group`, if it has any; every rank must do so
  /// for every group. Thread-safe.
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
  /// a finished piece, and journals without a part file.
  explicit EarlierRuns(const std::filesystem::path& result);

  /// Another run is still writing the same result, or its last ranks are just ending.
  bool contested() const { return contested_; }

  /// The journals of all runs that are gone, for parse_checkpoint(): one rank reads, and all ranks
  /// get the same.
  const std::string& journals() const { return journals_; }

  /// Sentences on files that have the name of a run's and are none, and were left alone.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Removes them all: a run has taken their pieces over, or is not to.
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

/// Whether the run `uuid` has finished a piece that a later run of `result` can take over.
bool has_finished_pieces(const std::filesystem::path& result, const std::string& uuid);

/// Throws UsageError, naming the first value that differs, if the checkpoint is of another
/// computation than `now`. Values named by one of `unknown` are not compared. `stored`:
/// output.store.
void expect_same_computation(const Checkpoint& earlier, const Fingerprint& now, bool stored,
                             std::span<const std::string_view> unknown);

/// The maximum size of a journal, in bytes.
std::uint64_t journal_bytes(const Fingerprint& fingerprint, const JournalExtent& extent);

/// Removes the journals of all ranks of the run `uuid`.
void remove_journals(const std::filesystem::path& result, const std::string& uuid);

}  // namespace shardstream::io
