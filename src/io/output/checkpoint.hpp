// Checkpoints, from which a later run can resume. Each rank has a journal,
// `.NAME.UUID.RANK.checkpoint`, next to the result. It consists of lines of JSON, each after a
// checksum of the journal's text up to the end of the line. The first line describes the
// computation. Then there is a line for each finished piece of the result, and a line for each
// group of pieces whose inputs the rank has verified. The elements of the pieces are in the run's
// part file, `.NAME.UUID.part`.
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
#include "io/output/temporary_files.hpp"

namespace shardstream::io {

/// A description of the computation as named values. Computations with equal fingerprints give the
/// same bits in every piece.
using Fingerprint = std::vector<std::pair<std::string, std::string>>;

/// A finished piece of the result: it is checked, and in the part file if the result is stored.
struct FinishedPiece {
  std::uint64_t number = 0;  ///< the same on any number of ranks
  /// The piece is valid after every rank has verified this group. Without a group, it is valid,
  /// since it was taken over from an earlier run.
  std::optional<std::uint64_t> group = {};
  std::vector<std::uint64_t> record = {};  ///< data of the workload, not interpreted here
};

/// The finished part of one computation by earlier runs.
struct Checkpoint {
  struct Run {
    std::filesystem::path part;
    std::vector<std::uint64_t>
        offsets;  ///< of the result's matrices in `part`, in bytes, if stored
    Fingerprint fingerprint;
  };
  struct RunPiece : FinishedPiece {
    std::size_t run = 0;  ///< index of the run in `runs` whose part file has the elements
  };
  std::vector<Run> runs;
  std::uint64_t restarts = 0;    ///< the maximum of all `runs`
  std::vector<RunPiece> pieces;  ///< in the order of their numbers, without duplicates
};

/// The maximum extent of a rank's journal.
struct JournalExtent {
  std::uint64_t pieces = 0, groups = 0;
  std::uint64_t record = 0;    ///< usual length of FinishedPiece::record
  std::uint64_t numbers = 0;   ///< further numbers in all records together
  std::uint64_t matrices = 1;  ///< of the result
};

/// CRC-64/XZ of the lines of a journal so far, without their checksums and line ends. A changed,
/// missing or moved line makes all following lines invalid.
class JournalChecksum {
 public:
  /// Adds a line and returns the checksum.
  std::uint64_t add(std::string_view json);

 private:
  boost::crc_optimal<64, 0x42f0e1eba9ea3693, UINT64_MAX, UINT64_MAX, true, true> crc_;
};

/// The journal of this rank. Each line is one write() at the end of the file, so it survives any
/// end of the process. If the journal cannot be written any more, the run continues with a warning,
/// and the lines written so far stay.
class Journal {
 public:
  /// Does not touch any file. `matrices` are the writers of the result, none if it is not stored.
  /// `on_checkpoint` is called once, from add_group() or begin(), as soon as a later run may be
  /// able to resume from the journal. `log` must outlive the journal.
  Journal(const std::filesystem::path& result, const std::string& uuid, int rank, int ranks,
          std::span<const RangeWriter> matrices, Log& log, std::function<void()> on_checkpoint);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Creates the file and reserves disk space for `extent`. Call it once, before the other
  /// functions. Throws UsageError and creates no file if `earlier` (or null) is the checkpoint of
  /// another computation (the message names the first difference), or without enough disk space.
  /// `fingerprint` need not tell whether the result is stored: that is compared here.
  void begin(Fingerprint fingerprint, const Checkpoint* earlier, const JournalExtent& extent);

  /// One more than `restarts` of the checkpoint passed to begin(); 0 without a checkpoint.
  std::uint64_t restarts() const { return restarts_; }

  /// Records that `piece` is finished: all its elements have been written. Thread-safe.
  void add(const FinishedPiece& piece);
  /// Records that this rank has verified its part of the inputs of `group`. Every rank must do so
  /// for every group, even without a part. Thread-safe.
  void add_group(std::uint64_t group);

  /// Blocks until everything added is on disk. Returns false if something could not be written.
  /// Thread-safe.
  bool sync();

 private:
  void append(const std::string& json);
  void give_up(const std::string& what, const std::string& reason);
  void report_checkpoint();

  std::filesystem::path path_;
  std::string run_;
  int rank_, ranks_;
  std::vector<std::uint64_t> offsets_;
  std::uint64_t restarts_ = 0;
  Log& log_;
  std::function<void()> on_checkpoint_;
  bool begun_ = false;
  mutable std::mutex mutex_;  // guards the members below
  Descriptor file_;           // not valid once writing has failed
  JournalChecksum checksum_;  // of all lines so far
  std::uint64_t bytes_ = 0;
  bool reported_ = false;
};

/// The journals and part files of earlier runs of one result. While an object of this class lives,
/// no other run takes them over. Only one rank has an object. If the file system has no locks,
/// running runs with finished pieces are treated as ended, and other runs are ignored.
class EarlierRuns {
 public:
  /// Finds ended runs in the folder of `result`. Removes useless files: runs without a finished
  /// piece, and journals without a part file.
  explicit EarlierRuns(const std::filesystem::path& result);

  /// Whether another run is still writing the same result, or its last ranks are just ending.
  bool contested() const { return contested_; }

  /// The journals of all ended runs, for parse_checkpoint(). One rank reads them and broadcasts the
  /// text to all ranks.
  const std::string& journals() const { return journals_; }

  /// Sentences on ignored files, which have a name like a file of a run but are not one.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Removes all of the files. Call it after their pieces have been taken over, or to discard them.
  void remove();

 private:
  void inspect(std::span<const TemporaryFile> files);

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

/// The finished pieces in the journals, or nothing if there are none. A damaged line and all lines
/// after it in its journal are ignored.
std::optional<Checkpoint> parse_checkpoint(const std::filesystem::path& result,
                                           const std::string& journals);

/// The checkpoint of interrupted runs of `result`. Finding it locks and removes nothing.
struct FoundCheckpoint {
  std::optional<Checkpoint> checkpoint;    ///< also of runs that are still running
  bool contested = false;                  ///< whether another run is writing the same result
  std::vector<std::string> warnings = {};  ///< see EarlierRuns::warnings()
};
FoundCheckpoint find_checkpoint(const std::filesystem::path& result);

/// Whether the run `uuid` has finished a piece that a later run of `result` can take over.
bool has_finished_pieces(const std::filesystem::path& result, const std::string& uuid);

/// Throws UsageError with the first difference if the checkpoint belongs to another computation
/// than `now`. Values whose names are in `unknown` are not compared. `stored` is output.store.
void expect_same_computation(const Checkpoint& earlier, const Fingerprint& now, bool stored,
                             std::span<const std::string_view> unknown);

/// The maximum size of a journal, in bytes.
std::uint64_t journal_bytes(const Fingerprint& fingerprint, const JournalExtent& extent);

/// Removes the journals of all ranks of the run `uuid`.
void remove_journals(const std::filesystem::path& result, const std::string& uuid);

}  // namespace shardstream::io
