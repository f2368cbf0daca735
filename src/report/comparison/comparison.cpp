#include "report/comparison/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "core/error.hpp"
#include "core/statistics.hpp"
#include "core/text.hpp"

namespace shardstream::report {
namespace {

namespace fs = std::filesystem;
using study::Change;
using study::Repetitions;

std::vector<Repetitions> times_of(const ComparedPoint& point) {
  std::vector<Repetitions> launches;
  for (const ComparedRun& run : point.runs) launches.push_back(run.file.timing.repetitions);
  return launches;
}

// ---------------------------------------------------------------- time to result

bool knows_launcher(const ComparedPoint& point) {
  return std::ranges::all_of(point.runs, [](const ComparedRun& run) {
    return std::isfinite(run.file.launcher.start) && std::isfinite(run.file.launcher.end);
  });
}

/// One value a launch; launches whose files do not say are left out.
std::vector<Repetitions> times_to_result(const ComparedPoint& point, bool with_launcher) {
  std::vector<Repetitions> launches;
  for (const auto& [run, setup] : point.runs) {
    const double seconds = with_launcher ? run.to_result() : run.step("store");
    if (std::isfinite(seconds) && seconds > 0) launches.push_back({seconds});
  }
  return launches;
}

std::optional<study::Comparison> compare_to_result(const ComparedPoint& before,
                                                   const ComparedPoint& after,
                                                   const Judgement& judgement) {
  const bool with_launcher = knows_launcher(before) && knows_launcher(after);
  const auto first = times_to_result(before, with_launcher);
  const auto second = times_to_result(after, with_launcher);
  if (first.empty() || second.empty()) return std::nullopt;
  return study::compare(first, second, judgement.threshold, judgement.launch_noise);
}

// ---------------------------------------------------------------- phases

using PhaseName = std::tuple<std::string, std::string, std::string>;  // track, phase, kind
using PhaseTimes = std::map<PhaseName, std::vector<double>>;          // one value a launch

/// Seconds a repetition in each launch of the point; 0 if a launch has no such phase.
PhaseTimes phases_of(const ComparedPoint& point) {
  PhaseTimes times;
  for (std::size_t i = 0; i < point.runs.size(); ++i) {
    for (const PhaseTime& phase : point.runs[i].file.phases_of_repetition()) {
      auto& launches = times[{phase.track, phase.phase, phase.kind}];
      launches.resize(point.runs.size());
      launches[i] = phase.seconds;
    }
  }
  return times;
}

std::vector<Repetitions> as_launches(const std::vector<double>& seconds) {
  std::vector<Repetitions> launches;
  for (const double each : seconds) launches.push_back({each});
  return launches;
}

PhaseComparison compare_phase(const PhaseName& name, const std::vector<double>& before,
                              const std::vector<double>& after, const PointComparison& point,
                              const Judgement& judgement) {
  const auto& [track, phase, kind] = name;
  PhaseComparison result{.track = track,
                         .phase = phase,
                         .kind = kind,
                         .before = median(before),
                         .after = median(after),
                         .times = {}};
  const auto is_positive = [](double seconds) { return seconds > 0; };
  if (std::ranges::all_of(before, is_positive) && std::ranges::all_of(after, is_positive) &&
      result.before >= min_phase_share * point.time.before &&
      result.after >= min_phase_share * point.time.after) {
    result.times = study::compare(as_launches(before), as_launches(after), judgement.threshold,
                                  judgement.launch_noise);
    result.before = result.times->before;  // means of launches, whose ratio is the one printed
    result.after = result.times->after;
  }
  return result;
}

std::vector<PhaseComparison> compare_phases(const PointComparison& point,
                                            const Judgement& judgement) {
  constexpr double noteworthy = 0.01;  // of the time of a repetition
  const PhaseTimes before = phases_of(*point.before), after = phases_of(*point.after);
  if (before.empty() || after.empty()) return {};
  PhaseTimes all = before;
  all.insert(after.begin(), after.end());
  const auto times = [](const PhaseTimes& side, const PhaseName& name, const ComparedPoint& of) {
    const auto found = side.find(name);
    return found == side.end() ? std::vector<double>(of.runs.size()) : found->second;
  };
  std::vector<PhaseComparison> phases;
  for (const auto& [name, unused] : all) {
    PhaseComparison phase = compare_phase(name, times(before, name, *point.before),
                                          times(after, name, *point.after), point, judgement);
    if (phase.before > noteworthy * point.time.before ||
        phase.after > noteworthy * point.time.after) {
      phases.push_back(std::move(phase));
    }
  }
  std::ranges::stable_sort(phases, std::greater<>(),
                           [](const PhaseComparison& each) { return std::abs(each.change()); });
  return phases;
}

// ---------------------------------------------------------------- a point

std::string checksum_of(const ComparedPoint& point) {
  return point.first().text("c_checksum");
}

/// The names of options in which launches of one side differ.
std::string mixed_options(const ComparedPoint& point) {
  std::set<std::string_view> mixed;
  const Values& first = point.runs.front().setup.options;
  for (const auto& [run, setup] : point.runs) {
    for (const auto& [name, value] : setup.options) {
      const auto found = first.find(name);
      if (found == first.end() || found->second != value) mixed.insert(name);
    }
  }
  return join(std::vector<std::string_view>(mixed.begin(), mixed.end()), ", ");
}

void warn_of_side(const Side& side, const ComparedPoint& point,
                  std::vector<std::string>& warnings) {
  std::size_t throttled = 0, unconverged = 0;
  for (const auto& [run, setup] : point.runs) {
    throttled += run.timing.throttled > 0 ? 1 : 0;
    unconverged += run.timing.sampling == "unconverged" ? 1 : 0;
  }
  const auto add = [&](std::size_t launches, const char* what) {
    if (launches == 0) return;
    warnings.push_back(
        fmt::format("{} in {} of {} launches of {}", what, launches, point.runs.size(), side.name));
  };
  add(throttled, "a GPU was throttled");
  add(unconverged, "sampling did not converge");
  if (const std::string mixed = mixed_options(point); !mixed.empty()) {
    warnings.push_back(fmt::format("launches of {} have different options: {}", side.name, mixed));
  }
}

/// A sentence that says which samples a verdict needs if a side has too few; else empty.
std::string shortage(const ComparisonReport& report, const PointComparison& point) {
  std::vector<std::string> lacking;
  for (const auto& [side, sampling] : {std::pair(&report.before, &point.time.sampling_before),
                                       std::pair(&report.after, &point.time.sampling_after)}) {
    if (sampling->is_enough()) continue;
    lacking.push_back(fmt::format("{} has {} of {}", side->name,
                                  counted(sampling->launches, "launch"),
                                  counted(sampling->repetitions, "repetition")));
  }
  if (lacking.empty()) return {};
  const auto& likely = point.launches_to_decide;
  return fmt::format(
      "too few samples for a verdict ({}): each side needs at least {} launches, or {} repetitions "
      "in each of its launches{}",
      fmt::join(lacking, ", "), study::min_launches, study::min_repetitions,
      likely && *likely > study::min_launches
          ? fmt::format("; with this scatter, about {} launches per side", *likely)
          : "");
}

void add_warnings(const ComparisonReport& report, PointComparison& point) {
  std::vector<std::string>& warnings = point.warnings;
  if (std::string lacking = shortage(report, point); !lacking.empty()) {
    warnings.push_back(std::move(lacking));
  } else if (point.launches_to_decide) {
    warnings.push_back(
        fmt::format("the verdict is unclear: {} per side would suffice with the same scatter",
                    counted(*point.launches_to_decide, "launch")));
  } else if (point.time.change == Change::unclear &&
             point.time.basis != study::Basis::repetitions) {
    warnings.push_back(fmt::format("the verdict is unclear: {}; raise --threshold",
                                   point.launches_to_decide.why_not));
  }
  if (point.time.basis == study::Basis::repetitions) {
    warnings.push_back(fmt::format(
        "one launch per side: the interval assumes that launches of one program scatter by {:g} % "
        "(--launch-noise); {} per side measure it",
        100 * report.judgement.launch_noise, counted(study::min_launches, "launch")));
  }
  warn_of_side(report.before, *point.before, warnings);
  warn_of_side(report.after, *point.after, warnings);
  const std::string was = checksum_of(*point.before), is = checksum_of(*point.after);
  if (was != is && !was.empty() && !is.empty()) {
    warnings.push_back(fmt::format("the results differ: the checksum is {} in {} but {} in {}",
                                   excerpt(was), report.before.name, excerpt(is),
                                   report.after.name));
  }
}

PointComparison compare_point(const ComparisonReport& report, const Pair& pair) {
  PointComparison point;
  point.before = pair.first;
  point.after = pair.second;
  const Judgement& judgement = report.judgement;
  point.time = study::compare(times_of(*point.before), times_of(*point.after), judgement.threshold,
                              judgement.launch_noise);
  point.launches_to_decide = study::launches_to_decide(point.time, judgement.threshold);
  point.rate = study::of_rates(point.time, point.before->first().work);
  point.to_result = compare_to_result(*point.before, *point.after, judgement);
  point.phases = compare_phases(point, judgement);
  add_warnings(report, point);
  return point;
}

// ---------------------------------------------------------------- changes of the setup

/// The values of a name over the launches of a point: one if they agree.
std::string value_in(const ComparedPoint& point, Values Setup::*values, const std::string& name) {
  std::set<std::string> found;
  for (const ComparedRun& run : point.runs) {
    const auto value = (run.setup.*values).find(name);
    if (value != (run.setup.*values).end()) found.insert(value->second);
  }
  return join(std::vector<std::string_view>(found.begin(), found.end()), " | ");
}

bool is_calibrated(const ComparedPoint& point, const std::string& name) {
  return std::ranges::all_of(
      point.runs, [&](const ComparedRun& run) { return run.setup.calibrated.contains(name); });
}

/// Whether only one side knows an option, as one of another version, and has its default.
bool is_new_default(const PointComparison& point, const SetupChange& change) {
  if (!change.before.empty() && !change.after.empty()) return false;
  const ComparedPoint& side = change.before.empty() ? *point.after : *point.before;
  return std::ranges::all_of(
      side.runs, [&](const ComparedRun& run) { return run.setup.defaults.contains(change.name); });
}

void add_changes(const PointComparison& point, const char* what, Values Setup::*values,
                 std::vector<SetupChange>& changes) {
  std::set<std::string> names;
  for (const ComparedPoint* side : {point.before, point.after}) {
    for (const ComparedRun& run : side->runs) {
      for (const auto& [name, value] : run.setup.*values) names.insert(name);
    }
  }
  for (const std::string& name : names) {
    SetupChange change{what,
                       name,
                       value_in(*point.before, values, name),
                       value_in(*point.after, values, name),
                       {},
                       is_calibrated(*point.before, name) && is_calibrated(*point.after, name)};
    if (change.before == change.after) continue;
    if (values == &Setup::options && is_new_default(point, change)) continue;
    auto known = std::ranges::find_if(changes, [&](const SetupChange& each) {
      return std::tie(each.what, each.name, each.before, each.after) ==
             std::tie(change.what, change.name, change.before, change.after);
    });
    if (known == changes.end()) known = changes.insert(known, std::move(change));
    const std::uint64_t ranks = point.before->first().size.ranks;
    if (known->ranks.empty() || known->ranks.back() != ranks) known->ranks.push_back(ranks);
  }
}

std::vector<SetupChange> changes_of(const std::vector<PointComparison>& points) {
  std::vector<SetupChange> changes;
  const std::array<std::pair<const char*, Values Setup::*>, 4> kinds = {
      {{"option", &Setup::options},
       {"version", &Setup::versions},
       {"machine", &Setup::machine},
       {"plan", &Setup::plan}}};
  for (const auto& [what, values] : kinds) {
    for (const PointComparison& point : points) add_changes(point, what, values, changes);
  }
  return changes;
}

void check_paths(const std::string& before, const std::string& after) {
  std::set<fs::path> files;
  for (const fs::path& each : result_files({&before, 1})) files.insert(fs::canonical(each));
  for (const fs::path& each : result_files({&after, 1})) {
    if (!files.contains(fs::canonical(each))) continue;
    throw UsageError(fmt::format("'{}' is on both sides: name two results", each.string()));
  }
}

}  // namespace

const PhaseComparison* PointComparison::largest_change() const {
  const double change = time.after - time.before;
  const PhaseComparison* largest = nullptr;
  for (const PhaseComparison& phase : phases) {  // the largest change comes first
    if (phase.change() == 0 || (phase.change() > 0) != (change > 0)) continue;
    if (phase.times && phase.times->change == Change::unclear) continue;
    if (phase.kind != "waiting" && std::abs(phase.change()) >= std::abs(change) / 2) return &phase;
    if (largest == nullptr) largest = &phase;
  }
  return largest;
}

Change ComparisonReport::verdict() const {
  for (const Change change : {Change::slower, Change::unclear, Change::faster}) {
    const auto is = [&](const PointComparison& point) { return point.time.change == change; };
    if (std::ranges::any_of(points, is)) return change;
  }
  return Change::same;
}

ComparisonReport make_comparison(const std::string& before, const std::string& after,
                                 const Judgement& judgement) {
  check_paths(before, after);
  ComparisonReport report;
  report.before = read_side("OLD", before);
  report.after = read_side("NEW", after);
  report.judgement = judgement;
  check_distinct(report.before, report.after);
  const std::vector<Pair> pairs = match(report.before, report.after, report.unmatched);
  if (pairs.empty()) {
    const Unmatched& first = report.unmatched.front();
    throw UsageError(fmt::format(
        "OLD and NEW have nothing to compare ({}: {}; {}): name runs of the same work on as many "
        "ranks",
        first.side, first.point, first.reason));
  }
  for (const Pair& pair : pairs) report.points.push_back(compare_point(report, pair));
  report.changes = changes_of(report.points);
  return report;
}

int exit_code(const ComparisonReport& report) {
  const Change verdict = report.verdict();
  if (verdict == Change::slower) return static_cast<int>(ExitCode::slower);
  if (!report.before.unreadable.empty() || !report.after.unreadable.empty()) {
    return static_cast<int>(ExitCode::failed);
  }
  return static_cast<int>(verdict == Change::unclear ? ExitCode::unclear : ExitCode::done);
}

}  // namespace shardstream::report
