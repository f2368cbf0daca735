#include "execution/output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/output/checkpoint.hpp"
#include "io/output/part_file.hpp"

namespace shardstream::execution {
namespace {

namespace fs = std::filesystem;

/// The job number of the batch system, else time and process, so that default names do not collide.
std::string job_id() {
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"}) {
    if (const char* id = std::getenv(name)) return id;
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format("{}-{}", std::chrono::duration_cast<std::chrono::seconds>(now).count(),
                     ::getpid());
}

/// The files that a run publishes.
struct Destinations {
  io::Destination result;
  std::optional<io::Destination> trace;  ///< with measure.timeline
};

Destinations destinations_of(const Options& options, const fs::path& path,
                             std::span<const io::InputFile> inputs) {
  Destinations destinations{.result = {.path = path,
                                       .contents = io::Contents::result,
                                       .overwrite = io::overwrite_of(options),
                                       .inputs = {inputs.begin(), inputs.end()}},
                            .trace = std::nullopt};
  if (options.flag("measure.timeline")) {
    destinations.trace = destinations.result;
    destinations.trace->path = trace_path(path);
    destinations.trace->contents = io::Contents::trace;
  }
  return destinations;
}

}  // namespace

Output::Output(const ranks::Session& session, const Options& options,
               std::span<const io::InputFile> inputs, const fs::path& path, const std::string& uuid,
               Log& log)
    : session_(session),
      path_(path),
      uuid_(uuid),
      log_(log),
      journal_path_(io::journal_path_of(path, uuid, session.rank())),
      remove_(
          {io::part_path_of(path, uuid), journal_path_, io::part_path_of(trace_path(path), uuid)}) {
  reject_result_path(path);
  if (session.rank() != 0) return;
  const Destinations destinations = destinations_of(options, path, inputs);
  file_.emplace(destinations.result, uuid, reserved_bytes);
  if (destinations.trace) trace_.emplace(*destinations.trace, uuid, trace_bytes);
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
  remove_.keep({io::part_path_of(path_, uuid_), journal_path_}, last_words());
  keeps_ = true;
}

void Output::keep_earlier(const fs::path& earlier) {
  remove_.keep({earlier}, last_words());
}

void Output::publish(Failure failure) {
  const bool keeps = failure == Failure::of_tiles && keeps_;
  if (keeps) file_->keep();
  file_->publish(failure == Failure::none ? "complete" : "unverified");
  published_ = true;
  if (!keeps) io::remove_journals(path_, uuid_);
}

std::string Output::last_words() const {
  if (session_.rank() != 0) return {};
  const char* const rank = session_.size() > 1 ? "rank 0: " : "";
  return printable(fmt::format("{}interrupted{{}}: {}", rank, what_is_kept())) + '\n';
}

std::string Output::what_is_kept() const {
  return fmt::format(
      "the run is not complete, but its finished part is kept: run the same command with -o {} to "
      "resume",
      path_.string());
}

fs::path result_path(const Options& options, std::uint64_t ranks) {
  std::string path = options.text("output.file");
  const auto replace = [&](std::string_view name, const std::string& value) {
    for (auto at = path.find(name); at != std::string::npos;
         at = path.find(name, at + value.size())) {
      path.replace(at, name.size(), value);
    }
  };
  replace("{workload}", options.text("run.workload"));
  replace("{ranks}", fmt::format("{}", ranks));
  replace("{jobid}", job_id());
  return path;
}

fs::path trace_path(fs::path result) {
  if (result.extension() == ".h5") result.replace_extension();
  return result += ".trace.json";
}

void reject_result_path(const fs::path& result) {
  const std::string name = result.string();
  const auto colon = name.rfind(":/");
  std::error_code not_there;
  if (colon != name.npos && colon > 0 && !fs::exists(name.substr(0, colon + 1), not_there)) {
    throw UsageError(
        fmt::format("output.file: '{}' names a data set, but a run writes a file with several data "
                    "sets (C is /results/C): pass -o {}",
                    name, name.substr(0, colon)));
  }
}

std::string note_on_name(const fs::path& result) {
  if (result.extension() != ".nc") return {};
  return fmt::format(
      "'{}' will be HDF5 with arrays of netCDF-4 in the group /results: xarray opens them with "
      "group=\"results\", and h5py or pandas reads the tables",
      result.string());
}

void check_output(const Options& options, std::uint64_t ranks, std::uint64_t matrix_bytes,
                  std::span<const io::InputFile> inputs) {
  const fs::path path = result_path(options, ranks);
  reject_result_path(path);
  const Destinations destinations = destinations_of(options, path, inputs);
  io::expect_destination(destinations.result, reserved_bytes + matrix_bytes);
  if (destinations.trace) io::expect_destination(*destinations.trace, trace_bytes);
}

}  // namespace shardstream::execution
