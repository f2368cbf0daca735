// Values of reports as JSON.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/studies.hpp"
#include "study/statistics/estimate.hpp"

namespace shardstream::report {

using Json = nlohmann::ordered_json;

/// null if it is not finite.
inline Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

/// NAME, NAME_lo and NAME_hi.
inline void put(Json& object, const std::string& name, const study::Estimate& estimate) {
  object[name] = number(estimate.value);
  object[name + "_lo"] = estimate.interval ? number(estimate.interval->lo) : Json(nullptr);
  object[name + "_hi"] = estimate.interval ? number(estimate.interval->hi) : Json(nullptr);
}

inline Json of_files(const std::vector<ExcludedFile>& files) {
  Json list = Json::array();
  for (const ExcludedFile& file : files) {
    list.push_back({{"file", file.path.string()}, {"reason", file.reason}});
  }
  return list;
}

inline Json of_attempts(const std::vector<study_folder::LaunchAttempt>& attempts) {
  Json list = Json::array();
  for (const study_folder::LaunchAttempt& attempt : attempts) {
    list.push_back({{"point", attempt.point},
                    {"ranks", attempt.ranks},
                    {"replicate", attempt.replicate},
                    {"attempt", attempt.number},
                    {"problem", attempt.problem},
                    {"log", attempt.log},
                    {"job", attempt.job}});
  }
  return list;
}

/// The document, indented, in printable ASCII; bytes that are not UTF-8 are replaced.
inline std::string to_document(const Json& object) {
  return object.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace shardstream::report
