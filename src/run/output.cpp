#include "run/output.hpp"

#include <fmt/format.h>

#include "core/text.hpp"
#include "io/checkpoint.hpp"
#include "io/part_file.hpp"
#include "run/result_path.hpp"

namespace shardstream::run {

namespace fs = std::filesystem;

Output::Output(const launch::Session& session, const Options& options,
               std::span<const io::InputFile> inputs, const fs::path& path, const std::string& uuid,
               Log& log)
    : session_(session),
      path_(path),
      uuid_(uuid),
      log_(log),
      journal_path_(io::journal_path_of(path, uuid, session.rank())),
      remove_(
          {io::part_path_of(path, uuid), journal_path_, io::part_path_of(trace_path(path), uuid)}) {
  refuse_result_path(path, inputs);
  const bool traces = options.flag("measure.timeline");
  if (traces) io::protect_inputs(trace_path(path), inputs);
  if (session.rank() != 0) return;
  const io::Overwrite overwrite = io::overwrite_of(options);
  file_.emplace(path, overwrite, uuid, reserved_bytes);
  if (traces) trace_.emplace(trace_path(path), overwrite, uuid, trace_bytes);
}

Output::~Output() {
  if (!file_ || published_) return;
  if (keeps_ && !file_->is_overtaken() && io::has_finished_pieces(path_, uuid_)) {
    file_->keep();
    log_.info(what_is_kept());
  } else {
    io::remove_journals(path_, uuid_);
  }
}

void Output::keep() {
  const char* const rank = session_.size() > 1 ? "rank 0: " : "";
  remove_.keep({io::part_path_of(path_, uuid_), journal_path_},
               session_.rank() == 0
                   ? printable(fmt::format("{}interrupted{{}}: {}", rank, what_is_kept())) + '\n'
                   : "");
  keeps_ = true;
}

void Output::publish(Failure failure) {
  const bool keeps = failure == Failure::of_tiles && keeps_;
  if (keeps) file_->keep();
  file_->publish(failure == Failure::none ? "complete" : "unverified");
  published_ = true;
  if (!keeps) io::remove_journals(path_, uuid_);
}

std::string Output::what_is_kept() const {
  return fmt::format(
      "the run is not complete, but what it has finished is kept: run the same command with "
      "-o {} to resume",
      path_.string());
}

}  // namespace shardstream::run
