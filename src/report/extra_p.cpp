#include <nlohmann/json.hpp>

#include "report/formats.hpp"

namespace shardstream::report {

std::string to_extra_p(const Report& report) {
  std::string text;
  for (const StudyReport& study : report.studies) {
    for (const RunFile& run : study.runs) {
      for (const double seconds : run.repetitions) {
        const nlohmann::ordered_json line = {{"program", "shardstream"},
                                             {"params", {{"p", run.ranks}}},
                                             {"callpath", study.name},
                                             {"metric", "time"},
                                             {"value", seconds}};
        text += line.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + '\n';
      }
    }
  }
  return text;
}

}  // namespace shardstream::report
