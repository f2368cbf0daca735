// The names of the files in the folder of a study:
//
//   study.ini       the options of the study
//   calibration.h5  one run at the largest size. It tests the launcher, and all other runs get its
//                   rates, sizes and CPUs per rank as options
//   pN-rR.h5        the result of launch R on N ranks
//   pN-timeline.h5  one repetition on N ranks with all spans, only for figures
//   logs/           the output of each attempt of a launch. For a program of the user: NAME.out has
//                   standard output, NAME.ranks/ the records of its processes during the launch
//   attempts.jsonl  the time and the outcome of every attempt
//   .scale.lock     locked while launches are made
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardstream::study_folder {

inline constexpr std::string_view ini_name = "study.ini", attempts_name = "attempts.jsonl",
                                  lock_name = ".scale.lock", logs_name = "logs";

/// The values of study.point for runs that are not measurements: the first run of a study, and the
/// runs that record spans for figures.
inline constexpr std::string_view calibration_label = "calibration", timeline_label = "timeline";

/// The maximum of scale.replicates.
inline constexpr std::uint64_t max_replicates = 1000;

/// The name of a launch without ".h5": "p4-r2". Its result is result_name(...).
inline std::string launch_name(std::uint64_t ranks, std::uint64_t replicate) {
  return "p" + std::to_string(ranks) + "-r" + std::to_string(replicate);
}
/// "p4-timeline"
inline std::string timeline_name(std::uint64_t ranks) {
  return "p" + std::to_string(ranks) + "-" + std::string(timeline_label);
}
/// The file of the result of a launch: "p4-r2.h5".
inline std::string result_name(std::string_view launch) {
  return std::string(launch) + ".h5";
}

}  // namespace shardstream::study_folder
