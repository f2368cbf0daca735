#include "report/comparison/comparison.hpp"
#include "report/json_values.hpp"

namespace shardstream::report {
namespace {

const char* word_of(study::Basis basis) {
  switch (basis) {
    case study::Basis::launches:
      return "launches";
    case study::Basis::repetitions:
      return "repetitions";
    case study::Basis::nothing:
      break;
  }
  return "nothing";
}

Json of_comparison(const study::Comparison& comparison) {
  Json object = {{"old", number(comparison.before)}, {"new", number(comparison.after)}};
  put(object, "ratio", comparison.ratio);
  object["basis"] = word_of(comparison.basis);
  object["verdict"] = study::word_of(comparison.change);
  return object;
}

Json of_sampling(const study::SideSamples& sampling) {
  return {{"launches", sampling.launches},
          {"repetitions", sampling.repetitions},
          {"missing_launches", sampling.missing_launches},
          {"missing_repetitions", sampling.missing_repetitions}};
}

Json of_phase(const PhaseComparison& phase) {
  Json object = {{"track", phase.track}, {"phase", phase.phase}, {"kind", phase.kind},
                 {"old", phase.before},  {"new", phase.after},   {"change", phase.change()}};
  put(object, "ratio", phase.times ? phase.times->ratio : study::Estimate{.value = std::nan("")});
  object["verdict"] = phase.times ? Json(study::word_of(phase.times->change)) : Json(nullptr);
  return object;
}

Json of_point(const PointComparison& point) {
  const RunFile& first = point.before->first();
  Json object = {{"workload", first.workload},
                 {"ranks", first.size.ranks},
                 {"work", first.work},
                 {"unit", first.work_unit},
                 {"precision", first.text("precision")},
                 {"backend", first.text("backend")}};
  object["old"] = of_sampling(point.time.sampling_before);
  object["new"] = of_sampling(point.time.sampling_after);
  object["time"] = of_comparison(point.time);
  object["launches_to_decide"] =
      point.launches_to_decide ? Json(*point.launches_to_decide) : Json(nullptr);
  object["rate"] = of_comparison(point.rate);
  object["to_result"] = point.to_result ? of_comparison(*point.to_result) : Json(nullptr);
  object["phases"] = Json::array();
  for (const PhaseComparison& phase : point.phases) object["phases"].push_back(of_phase(phase));
  const PhaseComparison* const largest = point.largest_change();
  object["largest_change"] = largest == nullptr ? Json(nullptr) : of_phase(*largest);
  object["warnings"] = point.warnings;
  return object;
}

Json json_of_side(const Side& side) {
  return {{"path", side.path},
          {"launches", side.launches()},
          {"excluded", of_files(side.excluded)},
          {"unreadable", of_files(side.unreadable)},
          {"failed", of_attempts(side.failed)},
          {"missing", side.missing}};
}

}  // namespace

std::string to_json(const ComparisonReport& report) {
  Json object = {{"verdict", study::word_of(report.verdict())},
                 {"exit_code", exit_code(report)},
                 {"threshold", report.judgement.threshold},
                 {"launch_noise", report.judgement.launch_noise},
                 {"old", json_of_side(report.before)},
                 {"new", json_of_side(report.after)},
                 {"points", Json::array()},
                 {"unmatched", Json::array()},
                 {"changes", Json::array()}};
  for (const PointComparison& point : report.points) object["points"].push_back(of_point(point));
  for (const auto& [side, point, reason] : report.unmatched) {
    object["unmatched"].push_back({{"side", side}, {"point", point}, {"reason", reason}});
  }
  for (const SetupChange& change : report.changes) {
    object["changes"].push_back({{"what", change.what},
                                 {"name", change.name},
                                 {"old", change.before},
                                 {"new", change.after},
                                 {"ranks", change.ranks},
                                 {"by_calibration", change.by_calibration}});
  }
  return to_document(object);
}

}  // namespace shardstream::report
