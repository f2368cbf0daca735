// The files of a run: the result, the trace and the journals. Output decides their paths, and which
// of them stay after the end of the run.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "core/log.hpp"
#include "core/options.hpp"
#include "io/description/origin.hpp"
#include "io/hdf5/result_file.hpp"
#include "ranks/session.hpp"
#include "ranks/signals.hpp"
#include "report/trace.hpp"

namespace shardstream::execution {

/// The result file and the optional trace of a running run. Only rank 0 has them, but all ranks
/// know which files to remove.
class Output {
 public:
  /// Throws UsageError if `path` cannot become a result or is one of `inputs`. The session and the
  /// log must outlive it.
  Output(const ranks::Session& session, const Options& options,
         std::span<const io::InputFile> inputs, const std::filesystem::path& path,
         const std::string& uuid, Log& log);
  /// Keeps the finished tiles of an unpublished result, unless another run has published a result
  /// with the same name.
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Null on all ranks except 0.
  io::ResultFile* file() { return file_ ? &*file_ : nullptr; }
  /// Null on all ranks except 0, and without measure.timeline.
  report::TraceFile* trace() { return trace_ ? &*trace_ : nullptr; }

  /// From now on, a run that is interrupted or fails leaves a checkpoint for a later run, and rank
  /// 0 prints that. Thread-safe.
  void keep();

  /// From now on, a run that is interrupted ends with ExitCode::checkpointed, since a later run can
  /// resume from `earlier`, the part file of an earlier run, and rank 0 prints that. keep()
  /// replaces this.
  void keep_earlier(const std::filesystem::path& earlier);

  /// From now on, an unpublished result leaves no files, also after keep(): the command or its data
  /// cannot succeed, so that no later run can resume.
  void discard() { keeps_ = false; }

  /// The reason why a result has failed its verification. With wrong tiles, the checkpoint is kept:
  /// wrong tiles are in no journal, so that the next run can resume from the correct ones.
  enum class Failure { none, of_tiles, of_input };

  /// Gives the result its final name and removes the journals. Call it on rank 0 after all ranks
  /// have written. A result that has failed its verification is marked, so that the next run
  /// replaces it.
  void publish(Failure failure);

 private:
  std::string what_is_kept() const;
  std::string last_words() const;

  const ranks::Session& session_;
  std::filesystem::path path_;
  std::string uuid_;
  Log& log_;
  std::filesystem::path journal_path_;
  ranks::RemoveOnSignal remove_;  // set up before the files are made, and outlives them
  std::optional<io::ResultFile> file_;
  std::optional<report::TraceFile> trace_;
  std::atomic<bool> keeps_ = false;
  bool published_ = false;
};

/// Reserved disk space for the tables of one run in bytes; they need far less.
inline constexpr std::uint64_t reserved_bytes = std::uint64_t{4} << 20;
/// Reserved disk space for a trace of about 30 000 spans. If a larger trace does not fit, the run
/// warns.
inline constexpr std::uint64_t trace_bytes = std::uint64_t{4} << 20;

/// output.file, in which the names in braces are replaced. If {jobid} is the time, the path differs
/// between ranks.
std::filesystem::path result_path(const Options& options, std::uint64_t ranks);

/// RESULT.trace.json, in the folder of the result.
std::filesystem::path trace_path(std::filesystem::path result);

/// A sentence about the format of the result if its name is that of a netCDF file; else empty.
std::string note_on_name(const std::filesystem::path& result);

/// Throws UsageError if `result` names a data set instead of a file.
void reject_result_path(const std::filesystem::path& result);

/// Throws UsageError if a run could not write its result or its trace, as far as that can be
/// checked without writing. The result contains a matrix of `matrix_bytes` bytes.
void check_output(const Options& options, std::uint64_t ranks, std::uint64_t matrix_bytes,
                  std::span<const io::InputFile> inputs);

}  // namespace shardstream::execution
