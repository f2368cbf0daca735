#include "scale/results.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <system_error>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "execution/output.hpp"
#include "io/hdf5/result_file.hpp"
#include "io/output/contents.hpp"
#include "report/inputs.hpp"
#include "report/run_file.hpp"
#include "report/trace.hpp"
#include "scale/launch/complaint.hpp"

namespace shardstream::scale {

namespace fs = std::filesystem;

namespace {

/// Does not follow a link. A file that cannot be reached counts as missing, since the run reports
/// it.
fs::file_type type_of(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(path, error).type();
  return type == fs::file_type::none ? fs::file_type::not_found : type;
}

/// The reason why `trace` must not be removed: nothing proves that a run of this study has written
/// it. Empty if one has, or if there is no such file.
std::string why_not_own_trace(const fs::path& trace, const std::string& study) {
  const fs::file_type type = type_of(trace);
  if (type == fs::file_type::not_found) return {};
  const Descriptor file(trace, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  std::string start(64 << 10, '\0');
  const auto got = type == fs::file_type::regular && file.valid()
                       ? file.read_at(0, reinterpret_cast<std::byte*>(start.data()), start.size())
                       : -1;
  start.resize(static_cast<std::size_t>(std::max<std::int64_t>(0, got)));
  const auto end = start.find("\"traceEvents\"");
  const std::string label = report::study_label(study);
  const bool is_own = start.starts_with(io::trace_start) && start.find(label) < end;
  return is_own ? "" : "it is not a trace of this study";
}

}  // namespace

std::string why_not_own_result(const fs::path& result, const LaunchLabels& labels) {
  const fs::file_type type = type_of(result);
  if (type == fs::file_type::not_found) return {};
  if (type != fs::file_type::regular) return "it is not a regular file";
  try {
    const io::ResultReader file(result, io::ResultStatus::any);
    const std::string study = file.text("/config", "study.name");
    if (study != labels.study) {
      return study.empty() ? "it is not a result of a study"
                           : fmt::format("it is a result of the study {}", excerpt(study));
    }
    const bool is_of_launch =
        file.text("/config", "study.point") == labels.point &&
        file.text("/config", "study.replicate") == std::to_string(labels.replicate);
    return is_of_launch ? "" : "it is the result of another launch of this study";
  } catch (const UsageError& error) {
    return error.what();
  }
}

/// The reason why the result does not count, or "". Throws UsageError if there is no complete
/// result.
std::string Results::problem_of_result(const PlannedLaunch& launch) const {
  const report::RunFile run = report::read_run_file(plan_.result_of(launch));
  if (run.size.ranks != launch.size->ranks) {
    return "its result is from " + counted(run.size.ranks, "rank");
  }
  if (run.study.name != plan_.name() || run.study.point != label_of(launch) ||
      run.study.replicate != launch.replicate) {
    return "its result belongs to another size or study";
  }
  return run.provenance.resumed ? "it resumed an interrupted run" : "";
}

bool Results::exists(const PlannedLaunch& launch) const {
  try {
    return problem_of_result(launch).empty();
  } catch (const UsageError&) {
    return false;
  }
}

/// The result file alone decides, since it is published only after the work has been finished and
/// checked. Exit codes cannot decide: launchers return different ones, and the exit code of a
/// launch is unknown if its `scale` was killed.
std::string Results::problem_of(const PlannedLaunch& launch, const LaunchEnd& ended,
                                const fs::path& log) const {
  try {
    return problem_of_result(launch);
  } catch (const UsageError& error) {
    if (ended.timed_out) {
      return fmt::format("it did not end within {} (--scale.timeout){}",
                         format_duration(ended.timeout),
                         ended.killed ? ", and ended only after SIGKILL" : "");
    }
    if (ended.code != 0) {
      std::string said = complaint_of(log);
      if (said.empty()) said = complaint_of(plan_.output_of(log));
      return fmt::format("exit code {}{}{}", ended.code, said.empty() ? "" : ": ", said);
    }
    return fmt::format("it left no result: {}", error.what());
  }
}

std::string Results::change_of_inputs(const PlannedLaunch& launch,
                                      std::span<const io::InputFile> files,
                                      std::string_view when) const {
  const report::RunFile run = report::read_run_file(plan_.result_of(launch));
  if (run.inputs.empty()) return {};  // generated data, or a result of an old version
  return report::difference_of(run.inputs, files, fmt::format("in '{}'", run.path.string()), when);
}

std::string Results::change_of_options(const PlannedLaunch& launch) const {
  const report::RunFile run = report::read_run_file(plan_.result_of(launch));
  const StoredOptions now = plan_.options_of_result(launch);
  for (const auto& [key, value] : report::options_of_result(run)) {
    const auto other = now.find(key);  // a result of another version may have other options
    if (other == now.end() || other->second == value) continue;
    return fmt::format("{} is {} in '{}' and {} now", key, excerpt(value), run.path.string(),
                       excerpt(other->second));
  }
  return {};
}

std::string Results::why_not_removable(const PlannedLaunch& launch) const {
  const fs::path result = plan_.result_of(launch), trace = execution::trace_path(result);
  const auto sentence = [&](const fs::path& file, const std::string& why) {
    return fmt::format(
        "output.file: '{}' has the name of a result of this study ({}), but is not replaced ({}): "
        "move it away, or name another folder with -o",
        file.string(), plan_.name(), why);
  };
  const LaunchLabels labels{plan_.name(), label_of(launch), launch.replicate};
  if (const std::string why = why_not_own_result(result, labels); !why.empty()) {
    return sentence(result, why);
  }
  const bool traces = launch.purpose == Purpose::timeline || (launch.measures() && records_spans_);
  if (!traces) return {};
  const std::string why = why_not_own_trace(trace, plan_.name());
  return why.empty() ? "" : sentence(trace, why);
}

void Results::remove(const PlannedLaunch& launch) const {
  if (const std::string why = why_not_removable(launch); !why.empty()) throw Error(why);
  const fs::path result = plan_.result_of(launch), trace = execution::trace_path(result);
  std::error_code ignored;  // the run reports a file that is still there
  fs::remove(result, ignored);
  if (why_not_own_trace(trace, plan_.name()).empty()) fs::remove(trace, ignored);
}

}  // namespace shardstream::scale
