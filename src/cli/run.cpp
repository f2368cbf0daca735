#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "cli/commands.hpp"
#include "cli/in_session.hpp"
#include "cli/store.hpp"
#include "core/units.hpp"
#include "io/part_file.hpp"
#include "io/result_file.hpp"
#include "io/source.hpp"
#include "launch/signals.hpp"
#include "runtime/provenance.hpp"
#include "workloads/reduce.hpp"

namespace shardstream::cli {
namespace {

namespace fs = std::filesystem;

Options parse(const Arguments& arguments, const char* const* environment) {
  const OptionTable table = all_options();
  CommandLine line = table.parse_command_line(arguments);
  if (line.words.size() != 1) {
    throw UsageError(line.words.empty()
                         ? std::string("run needs a workload (reduce) or a configuration file "
                                       "(NAME.ini): see shardstream run --help")
                         : fmt::format("run takes one workload or configuration file, but '{}' "
                                       "follows '{}': check the spelling of the options",
                                       line.words[1], line.words[0]));
  }
  std::optional<fs::path> ini;
  if (line.words[0].ends_with(".ini")) {
    ini = line.words[0];
  } else {
    line.values["run.workload"] = line.words[0];
  }
  return table.resolve(line, environment, ini);
}

/// The batch system's number of this job, or else the time, so that default names do not collide.
std::string job_id() {
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"}) {
    if (const char* id = std::getenv(name)) return id;
  }
  return fmt::format("{}", std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count());
}

fs::path result_path(const Options& options, int ranks) {
  std::string path = options.text("output.file");
  const auto replace = [&](std::string_view placeholder, const std::string& value) {
    for (auto at = path.find(placeholder); at != std::string::npos;
         at = path.find(placeholder, at + value.size())) {
      path.replace(at, placeholder.size(), value);
    }
  };
  replace("{workload}", options.text("run.workload"));
  replace("{ranks}", fmt::format("{}", ranks));
  replace("{jobid}", job_id());
  return path;
}

/// Room for the tables of one run; they take far less.
constexpr std::uint64_t reserved_bytes = std::uint64_t{4} << 20;

/// The result file while the run lasts; on rank 0 alone.
class Output {
 public:
  Output(const launch::Session& session, const Options& options, const std::string& uuid) {
    const fs::path path = result_path(options, session.size());
    remove_.emplace(session.rank() == 0 ? io::part_path_of(path, uuid) : "");
    if (session.rank() != 0) return;
    file_.emplace(path, options.flag("output.overwrite"), uuid, reserved_bytes);
  }
  /// Null on all ranks but 0.
  io::ResultFile* file() { return file_ ? &*file_ : nullptr; }

 private:
  std::optional<launch::RemoveOnSignal> remove_;  // from before the file to after it
  std::optional<io::ResultFile> file_;
};

/// The most memory that this process has had in use so far, in bytes.
double peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) * 1024;
  }
  // Elsewhere; on Linux this would count what the process that started this one had in use.
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

void print(const workloads::Outcome& outcome, const fs::path& file) {
  for (const auto& metric : outcome.metrics) {
    fmt::print("{}={}{}{}\n", metric.key, metric.value, metric.unit.empty() ? "" : " ",
               metric.unit);
  }
  fmt::print("file={}\n", file.string());
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw Error(fmt::format("the result cannot be printed ({}); it is complete in {}",
                            std::strerror(errno), file.string()));
  }
}

/// The command as a shell would read it again.
std::string command_line(const Arguments& arguments) {
  std::string line = "shardstream run";
  for (const std::string& word : arguments) {
    const bool plain =
        !word.empty() && word.find_first_of(" \t\n'\"\\$&|;<>()*?[]#~`!") == word.npos;
    std::string quoted = word;
    for (auto at = quoted.find('\''); at != quoted.npos; at = quoted.find('\'', at + 4)) {
      quoted.replace(at, 1, "'\\''");
    }
    line += plain ? fmt::format(" {}", word) : fmt::format(" '{}'", quoted);
  }
  return line;
}

/// How often the batch system has started this job again.
std::int64_t restart_count() {
  const char* count = std::getenv("SLURM_RESTART_COUNT");
  return count != nullptr ? std::atoll(count) : 0;
}

/// Hosts may see different files under one name.
void expect_same_input(const launch::Session& session, const io::Source& source) {
  const auto& order = source.order();
  std::string mine = fmt::format("{}, {} elements", name_of(source.type()), order.count());
  for (const auto* extents : {&order.shape(), &order.box()}) {
    for (const auto extent : *extents) mine += fmt::format(" {}", extent);
  }
  const auto all = session.gather(mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw UsageError(
        fmt::format("{} is not the same data on ranks 0 and {} ({} and {}): use a file "
                    "that all hosts share",
                    source.name(), rank, all[0], all[rank]));
  }
}

/// What all GPUs did in the run; rank 0 says what was not right with them. Collective.
measure::RunTelemetry gather_telemetry(const runtime::Runtime& runtime,
                                       const workloads::Outcome& outcome) {
  const std::string& pci = runtime.device->info().pci;
  auto telemetry = measure::gather_telemetry(
      runtime.session, *runtime.telemetry, outcome.repetitions,
      pci.empty() ? "" : fmt::format("{} {}", runtime.session.host(), pci));
  if (runtime.session.rank() == 0) {
    for (const auto& warning : telemetry.warnings) runtime.log.warn(warning);
  }
  return telemetry;
}

ExitCode run_workload(const launch::Session& session, const Options& options, Log& log,
                      const Arguments& arguments) {
  const std::string uuid = runtime::make_run_uuid(session);
  std::unique_ptr<io::Source> source;
  session.collectively([&] { source = io::open_source(options); });
  session.collectively([&] { expect_same_input(session, *source); });
  std::optional<Output> output;
  session.collectively([&] { output.emplace(session, options, uuid); });

  runtime::Runtime runtime(session, options, log);
  runtime.telemetry->start();
  workloads::Outcome outcome = workloads::reduce(runtime, *source);
  runtime.telemetry->stop();
  const auto telemetry = gather_telemetry(runtime, outcome);
  describe_rates(outcome, telemetry);
  outcome.metrics.push_back({"backend", runtime.device->info().backend});
  outcome.metrics.push_back(
      {"host_memory_peak", fmt::format("{:.0f}", session.max(peak_memory())), "B"});
  const Record record = gather(runtime, *source, outcome, telemetry);
  session.collectively([&] {
    io::ResultFile* file = output->file();
    if (file == nullptr) return;
    file->attribute("/", "argv", command_line(arguments));
    file->attribute("/", "restart_count", restart_count());
    store(*file, runtime, record, outcome);
    file->publish();
    print(outcome, file->path());
  });
  session.collectively([&] {
    if (!outcome.verified) throw Unverified("the result is not verified: " + outcome.verdict);
  });
  return ExitCode::done;
}

}  // namespace

int run(const Arguments& arguments, const char* const* environment) {
  return in_session([&] { return parse(arguments, environment); },
                    [&](const launch::Session& session, const Options& options, Log& log) {
                      return run_workload(session, options, log, arguments);
                    });
}

}  // namespace shardstream::cli
