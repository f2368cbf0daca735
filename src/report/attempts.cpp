#include "report/attempts.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.hpp"
#include "core/files.hpp"

namespace shardstream::report {

std::string to_line(const Attempt& attempt) {
  const nlohmann::ordered_json line = {{"point", attempt.point},
                                       {"ranks", attempt.ranks},
                                       {"replicate", attempt.replicate},
                                       {"attempt", attempt.number},
                                       {"utc_start", attempt.utc_start},
                                       {"utc_end", attempt.utc_end},
                                       {"exit_code", attempt.exit_code},
                                       {"timed_out", attempt.timed_out},
                                       {"interrupted", attempt.interrupted},
                                       {"result", attempt.result},
                                       {"log", attempt.log},
                                       {"problem", attempt.problem}};
  return line.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + '\n';
}

std::vector<Attempt> read_attempts(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "attempts.jsonl";
  std::vector<Attempt> attempts;
  std::istringstream file(read_small_file(path, max_attempts_bytes).value_or(std::string()));
  std::size_t number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    try {
      const auto line = nlohmann::json::parse(text);
      attempts.push_back({.point = line.at("point"),
                          .ranks = line.at("ranks"),
                          .replicate = line.at("replicate"),
                          .number = line.at("attempt"),
                          .utc_start = line.at("utc_start"),
                          .utc_end = line.at("utc_end"),
                          .exit_code = line.at("exit_code"),
                          .timed_out = line.at("timed_out"),
                          .interrupted = line.at("interrupted"),
                          .result = line.at("result"),
                          .log = line.at("log"),
                          .problem = line.at("problem")});
    } catch (const nlohmann::json::exception& error) {
      throw UsageError(fmt::format("'{}', line {} is not a launch of a study ({}): remove the line",
                                   path.string(), number, error.what()));
    }
  }
  return attempts;
}

}  // namespace shardstream::report
