#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/text.hpp"
#include "report/formats.hpp"

namespace shardstream::report {

void expect_one_study(const Report& report) {
  if (report.studies.size() == 1) return;
  const auto name = [](const StudyReport& study) { return excerpt(study.name); };
  throw UsageError(fmt::format(
      "--extra-p writes one study to a file, but the results are of {} studies{}: name the "
      "results of one study, and run report once for each",
      report.studies.size(),
      report.studies.empty() ? "" : fmt::format(" ({})", join(report.studies, ", ", name))));
}

std::string to_extra_p(const StudyReport& study) {
  std::string text;
  for (const RunFile& run : study.runs) {
    for (const double seconds : run.timing.repetitions) {
      const nlohmann::ordered_json line = {{"program", "shardstream"},
                                           {"params", {{"p", run.size.ranks}}},
                                           {"callpath", study.name},
                                           {"metric", "time"},
                                           {"value", seconds}};
      text += line.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + '\n';
    }
  }
  return text;
}

}  // namespace shardstream::report
