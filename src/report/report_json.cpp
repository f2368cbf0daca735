#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "core/text.hpp"
#include "report/formats.hpp"
#include "report/json_values.hpp"
#include "report/words.hpp"

namespace shardstream::report {
namespace {

void put_unknown(Json& object, const std::string& name) {
  for (const char* end : {"", "_lo", "_hi"}) object[name + end] = nullptr;
}

Json of_size(const study::Size& size, const SizeFacts& facts) {
  Json point = {{"ranks", size.ranks},
                {"launches", size.launches},
                {"repetitions", number(facts.repetitions)},
                {"repetitions_min", facts.min_repetitions},
                {"repetitions_max", facts.max_repetitions},
                {"work", number(size.work)},
                {"median", number(size.median)}};
  put(point, "time", size.seconds);
  put(point, "speedup", size.speedup);
  put(point, "efficiency", size.efficiency);
  if (size.karp_flatt) {
    put(point, "karp_flatt", *size.karp_flatt);
  } else {
    put_unknown(point, "karp_flatt");
  }
  point["scatter"] = size.noise.df > 0 ? Json(std::sqrt(size.noise.variance)) : Json(nullptr);
  point["scatters_more"] = size.noisier;
  point["throttled"] = facts.throttled;
  point["unconverged"] = facts.unconverged;
  point["bound_by"] = facts.bound_by;
  point["bound_share"] = number(facts.bound_share);
  point["to_result"] = number(facts.to_result);
  point["launcher"] = number(facts.launcher);
  point["host_memory"] = number(facts.host_memory);
  point["nodes"] = number(facts.nodes);
  point["gpus"] = number(facts.gpus);
  point["node_hours"] = number(facts.cost.node_hours);
  point["gpu_hours"] = number(facts.cost.gpu_hours);
  return point;
}

/// The launches that are far from the others of their size.
Json of_outliers(const StudyReport& study) {
  Json list = Json::array();
  for (const study::Outlier& each : study.outliers) {
    const RunFile& run = study.runs[each.launch];
    list.push_back(
        {{"file", run.path.string()}, {"ranks", run.size.ranks}, {"factor", number(each.factor)}});
  }
  return list;
}

/// The extrapolated law; null without one.
Json expected(const StudyReport& study) {
  if (!study.laws.expected) return nullptr;
  const study::Extrapolation& next = *study.laws.expected;
  Json object = {{"ranks", next.ranks}};
  if (next.seconds) put(object, "time", *next.seconds);
  if (next.speedup) put(object, "speedup", *next.speedup);
  put(object, "efficiency", next.efficiency);
  if (study.is_strong()) {
    object["max_speedup"] = next.max_speedup ? Json(*next.max_speedup) : Json(nullptr);
  }
  return object;
}

/// By which part the fitted law misses each size.
Json of_residuals(const StudyReport& study) {
  Json list = Json::array();
  const auto put_all = [&list](const std::vector<study::Residual>& residuals) {
    for (const study::Residual& each : residuals) {
      list.push_back({{"ranks", each.ranks}, {"relative", number(each.relative)}});
    }
  };
  if (study.laws.amdahl) put_all(study.laws.amdahl->law.residuals);
  if (study.laws.gustafson) put_all(study.laws.gustafson->residuals);
  return list;
}

/// The shares of the configured law; null without one.
void put_configured(Json& object, const StudyReport& study) {
  const auto& law = study.laws.configured;
  object["serial_configured"] = law ? number(law->serial_share) : Json(nullptr);
  object["serial_expected"] = law ? number(law->expected_share) : Json(nullptr);
}

Json json_of_study(const StudyReport& study) {
  Json object = {{"name", study.name},
                 {"workload", study.workload},
                 {"mode", study.is_strong() ? "strong" : "weak"},
                 {"device", study.device},
                 {"unit", study.unit},
                 {"reference_ranks", study.table.anchor}};
  object["law"] = study.is_strong() ? "Amdahl" : "Gustafson";
  const study::Fit* const fit = study.fit();
  if (study.laws.amdahl) {
    put(object, "serial", study.laws.amdahl->serial_share);
    put(object, "serial_seconds", study.laws.amdahl->serial_seconds);
  } else if (study.laws.gustafson) {
    put(object, "serial", study.laws.gustafson->serial_share);
  } else {
    put_unknown(object, "serial");
  }
  put_configured(object, study);
  object["law_fits"] = word_of(study.fit_verdict());
  object["p_value"] = fit == nullptr ? Json(nullptr) : number(fit->p_value);
  object["residuals"] = of_residuals(study);
  if (study.laws.scalability) {
    put(object, "contention", study.laws.scalability->contention);
    put(object, "coherency", study.laws.scalability->coherency);
  }
  object["points"] = Json::array();
  for (std::size_t i = 0; i < study.facts.size(); ++i) {
    Json point = of_size(study.table.sizes[i], study.facts[i]);
    point["speedup_configured"] =
        study.laws.configured ? number(study.laws.configured->expected.sizes[i].speedup.value)
                              : Json(nullptr);
    object["points"].push_back(std::move(point));
  }
  object["expected"] = expected(study);
  object["why_not_expected"] = study.laws.expected.why_not;
  object["node_hours"] = number(study.cost.node_hours);
  object["gpu_hours"] = number(study.cost.gpu_hours);
  object["contradiction"] = study.contradiction;
  object["outliers"] = of_outliers(study);
  object["notes"] = study.notes;
  object["excluded"] = of_files(study.excluded);
  object["failed"] = of_attempts(study.unfinished.failed);
  object["interrupted"] = of_attempts(study.unfinished.interrupted);
  object["missing"] = study.unfinished.missing;
  object["timelines"] = Json::array();
  for (const RunFile& run : study.timelines) object["timelines"].push_back(run.path.string());
  return object;
}

Json of_together(const Together& together) {
  Json list = Json::array();
  for (const Distinction& each : together.studies) {
    Json differs = Json::object();
    for (const auto& [key, value] : each.differs) differs[key] = value;
    list.push_back({{"letter", each.letter}, {"folder", each.folder}, {"differs", differs}});
  }
  return {{"studies", list}, {"why_no_times", together.why_no_times}};
}

Json of_cell(const Cell& cell) {
  if (const auto* const real = std::get_if<double>(&cell)) return number(*real);
  if (const auto* const integer = std::get_if<std::int64_t>(&cell)) return *integer;
  return std::get<std::string>(cell);
}

/// An array of objects whose keys are the columns.
Json of_rows(const Table& table) {
  Json rows = Json::array();
  for (const Row& row : table.rows()) {
    Json cells = Json::object();
    for (std::size_t i = 0; i < row.cells().size(); ++i) {
      cells[table.columns()[i].name] = of_cell(row.cells()[i]);
    }
    rows.push_back(std::move(cells));
  }
  return rows;
}

Json of_bench(const BenchFile& bench) {
  Json object = {{"file", bench.path.string()}, {"ranks", bench.ranks}, {"device", bench.device}};
  object["experiments"] = Json::array();
  for (const ExperimentResult& each : bench.experiments) {
    Json experiment = {{"name", each.name},          {"group", each.group}, {"state", each.state},
                       {"message", each.message},    {"notes", each.notes}, {"share", each.share},
                       {"rows", of_rows(each.table)}};
    object["experiments"].push_back(std::move(experiment));
  }
  if (bench.roofline) {
    object["roofline"] = {{"rows", of_rows(to_table(*bench.roofline))},
                          {"notes", bench.roofline->notes}};
  }
  return object;
}

}  // namespace

std::string to_json(const BenchFile& bench) {
  return to_document(of_bench(bench));
}

std::string to_json(const Report& report) {
  Json object = {{"studies", Json::array()}};
  for (const StudyReport& study : report.studies) object["studies"].push_back(json_of_study(study));
  if (report.together) object["together"] = of_together(*report.together);
  object["benches"] = Json::array();
  for (const BenchFile& bench : report.benches) object["benches"].push_back(of_bench(bench));
  object["unreadable"] = of_files(report.unreadable);
  return to_document(object);
}

std::vector<std::string> problems_of(const Report& report) {
  std::vector<std::string> problems;
  for (const StudyReport& study : report.studies) {
    if (!study.contradiction.empty()) {
      problems.push_back(
          fmt::format("{}: {}", printable(study.name), printable(study.contradiction)));
    }
  }
  for (const ExcludedFile& file : report.unreadable) {
    problems.push_back(fmt::format("unreadable: {}", printable(file.reason)));
  }
  return problems;
}

int exit_code(const Report& report) {
  const auto contradicts = [](const StudyReport& study) { return !study.contradiction.empty(); };
  if (std::ranges::any_of(report.studies, contradicts)) return 3;
  return report.unreadable.empty() ? 0 : 1;
}

}  // namespace shardstream::report
