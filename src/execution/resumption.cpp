#include "execution/resumption.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "core/error.hpp"
#include "io/output/part_file.hpp"

namespace shardstream::execution {

namespace fs = std::filesystem;

Resumption::Resumption(const ranks::Session& session, const Options& options, const fs::path& path,
                       Log& log)
    : session_(session), path_(path), log_(log) {
  std::string journals;
  session.collectively([&] {
    if (session.rank() != 0) return;
    if (options.text("output.resume") == "never") {
      earlier_runs_.emplace(path).remove();
    } else {
      find_earlier_runs();
      journals = earlier_runs_->journals();
    }
    for (const std::string& warning : earlier_runs_->warnings()) log_.warn(warning);
  });
  earlier_ = io::parse_checkpoint(path, session.broadcast(journals));
}

workloads::Resume Resumption::begin(Output& output, const std::string& uuid,
                                    std::span<const io::RangeWriter> matrices) {
  matrices_ = matrices;
  if (earlier_) output.keep_earlier(earlier_->runs.front().part);
  journal_.emplace(path_, uuid, session_.rank(), session_.size(), matrices, log_,
                   [&] { output.keep(); });
  return {&*journal_, earlier_ ? &*earlier_ : nullptr, [this] { take_over(); }};
}

void Resumption::remove_earlier() {
  earlier_runs_->remove();
  io::EarlierRuns(path_).remove();
  io::remove_stale_parts(path_);
}

/// If a journal cannot be written, the files of earlier runs stay, since their tiles are still
/// needed.
void Resumption::take_over() {
  bool written = false;
  session_.collectively([&] {
    for (const io::RangeWriter& matrix : matrices_) matrix.sync();
    written = journal_->sync();
  });
  if (session_.max(written ? 0 : 1) > 0) return;
  session_.collectively([&] {
    if (!earlier_runs_) return;
    io::sync_folder_of(path_);
    earlier_runs_->remove();
  });
}

/// Waits a few seconds for another run, which may have been killed and may still be ending.
void Resumption::find_earlier_runs() {
  constexpr int patience = 10;  // seconds
  earlier_runs_.emplace(path_);
  for (int i = 0; i < patience && earlier_runs_->contested(); ++i) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    session_.heartbeat().move();
    earlier_runs_.emplace(path_);
  }
  if (!earlier_runs_->contested()) return;
  throw UsageError(
      fmt::format("another run is writing '{}' and may finish it: wait for its end, choose another "
                  "output.file, or pass --output.resume never",
                  path_.string()));
}

}  // namespace shardstream::execution
