#include "report/page/details.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/statistics.hpp"
#include "io/hdf5/result_file.hpp"

namespace shardstream::report::page {
namespace {

constexpr auto integer = ColumnType::integer;
constexpr auto real = ColumnType::real;
constexpr auto text = ColumnType::text;

void read_phases(const io::ResultReader& file, Details& details) {
  details.knows_timed = file.has_column("/timing/rank_phase", "timed_seconds");
  std::vector<Column> columns = {{"rank", integer}, {"track", text},        {"phase", text},
                                 {"kind", text},    {"host_seconds", real}, {"gpu_seconds", real}};
  if (details.knows_timed) columns.push_back({"timed_seconds", real});
  const Table table = file.table("/timing/rank_phase", columns);
  for (const Row& row : table.rows()) {
    const double host = row.get<double>("host_seconds"), gpu = row.get<double>("gpu_seconds");
    details.phases.push_back(
        {.rank = static_cast<int>(row.get<std::int64_t>("rank")),
         .track = row.get<std::string>("track"),
         .phase = row.get<std::string>("phase"),
         .kind = row.get<std::string>("kind"),
         .seconds = host + gpu,
         .timed = details.knows_timed ? row.get<double>("timed_seconds") : std::nan(""),
         .on_device = gpu > 0});
  }
}

void read_telemetry(const io::ResultReader& file, const RunFile& run, Details& details) {
  const Table table =
      file.table("/telemetry/gpu",
                 {{"seconds", real}, {"power", real}, {"sm_clock", real}, {"temperature", real}});
  const double end = run.wall();
  std::vector<double> power, clock, temperature;
  for (const Row& row : table.rows()) {
    if (row.get<double>("seconds") < 0 || row.get<double>("seconds") > end) continue;
    const auto keep = [&](const char* column, std::vector<double>& values) {
      if (std::isfinite(row.get<double>(column))) values.push_back(row.get<double>(column));
    };
    keep("power", power);
    keep("sm_clock", clock);
    keep("temperature", temperature);
  }
  const auto median = [](std::vector<double>& values) {
    return values.empty() ? std::nan("") : summarize(std::move(values)).median;
  };
  details.telemetry.samples = power.size();
  details.telemetry.power = median(power);
  details.telemetry.clock = median(clock);
  details.telemetry.temperature = median(temperature);
}

void read_spans(const io::ResultReader& file, Details& details) {
  const Table table = file.table("/timeline/spans", {{"rank", integer},
                                                     {"track", text},
                                                     {"phase", text},
                                                     {"start_ns", integer},
                                                     {"dur_ns", integer}});
  for (const Row& row : table.rows()) {
    const auto start = row.get<std::int64_t>("start_ns");
    const auto length = std::max<std::int64_t>(0, row.get<std::int64_t>("dur_ns"));
    if (start < 0 || start > INT64_MAX - length) continue;
    details.spans.push_back({.rank = static_cast<int>(row.get<std::int64_t>("rank")),
                             .track = row.get<std::string>("track"),
                             .phase = row.get<std::string>("phase"),
                             .start = start,
                             .end = start + length});
  }
}

}  // namespace

bool RankPhase::is_always_timed() const {
  constexpr double rounding = 1e-6;
  return timed > 0 && timed >= seconds * (1 - rounding);
}

PhaseIndex::PhaseIndex(const Details& details) {
  for (const RankPhase& each : details.phases) {
    phases_[{each.rank, each.track, each.phase}] = &each;
  }
}

const RankPhase* PhaseIndex::find(const Span& span) const {
  const auto found = phases_.find({span.rank, span.track, span.phase});
  return found == phases_.end() ? nullptr : found->second;
}

Details read_details(const RunFile& run, Spans spans) {
  Details details;
  const io::ResultReader file(run.path);
  const auto tried = [](const auto& read) -> std::string {
    try {
      read();
    } catch (const UsageError& error) {
      return error.what();
    }
    return {};
  };
  tried([&] { read_phases(file, details); });
  tried([&] { read_telemetry(file, run, details); });
  details.provenance = file.texts("/provenance");
  if (spans == Spans::leave) return details;
  details.why_no_spans = tried([&] { read_spans(file, details); });
  if (details.spans.empty() && details.why_no_spans.empty()) {
    details.why_no_spans = "the timeline has no spans";
  }
  return details;
}

}  // namespace shardstream::report::page
