#include "scale/results.hpp"

#include <fmt/format.h>

#include <system_error>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "execution/output.hpp"
#include "report/inputs.hpp"
#include "report/run_file.hpp"
#include "scale/complaint.hpp"
#include "scale/folder.hpp"

namespace shardstream::scale {

namespace fs = std::filesystem;

LaunchAttempt Results::as_if_done(const PlannedLaunch& launch) const {
  return {.point = label_of(launch),
          .ranks = launch.size->ranks,
          .replicate = launch.replicate,
          .result = plan_.result_of(launch)};
}

/// The result file alone decides, since a run publishes it only after it has finished and checked
/// its work. Exit codes cannot decide: launchers return different ones, and the exit code of a
/// launch is unknown if its `scale` was killed.
std::string Results::problem_of(const LaunchAttempt& attempt) const {
  try {
    const report::RunFile run = report::read_run_file(attempt.result);
    if (run.ranks != attempt.ranks) {
      return "its result is from " + counted(run.ranks, "rank");
    }
    if (run.study != plan_.name() || run.point != attempt.point ||
        run.replicate != attempt.replicate) {
      return "its result belongs to another size or study";
    }
    if (run.resumed) return "it resumed an interrupted run";
    return {};
  } catch (const UsageError& error) {
    if (attempt.ended.timed_out) {
      return fmt::format("it did not end within {} (--scale.timeout){}",
                         format_duration(attempt.ended.timeout),
                         attempt.ended.killed ? ", and ended only after SIGKILL" : "");
    }
    if (attempt.ended.code != 0) {
      const std::string said = complaint_of(attempt.log);
      return fmt::format("exit code {}{}{}", attempt.ended.code, said.empty() ? "" : ": ", said);
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
  const Options now = plan_.options_of(launch);
  for (const auto& [key, value] : report::options_of_result(run)) {
    const auto other = now.all().find(key);  // a result of another version may have other options
    if (other == now.all().end() || other->second.text == value) continue;
    return fmt::format("{} is {} in '{}' and {} now", key, excerpt(value), run.path.string(),
                       excerpt(other->second.text));
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
