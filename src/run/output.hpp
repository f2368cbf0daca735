// The files that a run writes beside each other: the result, a trace, journals; where they go, and
// what becomes of them when the run ends, however it ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "core/log.hpp"
#include "core/options.hpp"
#include "io/hdf5/result_file.hpp"
#include "io/source/origin.hpp"
#include "launch/session.hpp"
#include "launch/signals.hpp"
#include "report/trace.hpp"

namespace shardstream::run {

/// The result file, and the trace if there is to be one, while the run lasts; on rank 0 alone, but
/// all ranks know what to remove.
class Output {
 public:
  /// Throws UsageError if `path` cannot become a result or is one of `inputs`. The session and the
  /// log must outlive it.
  Output(const launch::Session& session, const Options& options,
         std::span<const io::InputFile> inputs, const std::filesystem::path& path,
         const std::string& uuid, Log& log);
  /// What is finished of an unpublished result stays, unless another run has published one.
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Null on all ranks but 0.
  io::ResultFile* file() { return file_ ? &*file_ : nullptr; }
  /// Null also without measure.timeline.
  report::TraceFile* trace() { return trace_ ? &*trace_ : nullptr; }

  /// From now on a run that is interrupted or fails leaves what a later run can resume from, and
  /// rank 0 says so. For any thread.
  void keep();

  /// Whether a result that has failed its verification leaves its checkpoint: what was wrong is in
  /// no journal, so that the next run can resume from the tiles that were right.
  enum class Failure { none, of_tiles, of_input };

  /// Once all have written: the result gets its name, and the journals go. A result that has failed
  /// its verification is marked, so that the next run replaces it. On rank 0.
  void publish(Failure failure);

 private:
  std::string what_is_kept() const;

  const launch::Session& session_;
  std::filesystem::path path_;
  std::string uuid_;
  Log& log_;
  std::filesystem::path journal_path_;
  launch::RemoveOnSignal remove_;  // from before the files to after them
  std::optional<io::ResultFile> file_;
  std::optional<report::TraceFile> trace_;
  std::atomic<bool> keeps_ = false;
  bool published_ = false;
};

/// Room for the tables of one run, in bytes; they take far less.
inline constexpr std::uint64_t reserved_bytes = std::uint64_t{4} << 20;
/// Room for a trace of some 30 000 spans. A larger one that does not fit is a warning.
inline constexpr std::uint64_t trace_bytes = std::uint64_t{4} << 20;

/// output.file, with values for the names in braces. Names by the time differ between ranks.
std::filesystem::path result_path(const Options& options, std::uint64_t ranks);

/// Beside the result, RESULT.trace.json.
std::filesystem::path trace_path(std::filesystem::path result);

/// Throws UsageError if `result` is meant for a data set and no file, or is one of `inputs`.
void refuse_result_path(const std::filesystem::path& result, std::span<const io::InputFile> inputs);

/// Throws UsageError if a run could not write its result, `matrix_bytes` of it a matrix, or its
/// trace, as far as that can be seen without writing.
void check_output(const Options& options, std::uint64_t ranks, std::uint64_t matrix_bytes,
                  std::span<const io::InputFile> inputs);

}  // namespace shardstream::run
