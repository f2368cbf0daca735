#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/text.hpp"
#include "core/units.hpp"
#include "report/formats.hpp"
#include "report/words.hpp"

namespace shardstream::report {
namespace {

using study::Estimate;

std::string cell(double value, const char* format) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "-";
}

Table size_table(const StudyReport& study, Detail detail) {
  std::vector<Column> columns = {
      {"ranks", ColumnType::integer},
      {"launches", ColumnType::integer},
      {"time", ColumnType::text, "s"},
      {study.is_strong() ? "speedup" : "scaled_speedup", ColumnType::text},
      {"efficiency", ColumnType::text},
      {"karp_flatt", ColumnType::text}};
  if (detail == Detail::full) {
    columns.insert(columns.end(), {{"bound_by", ColumnType::text},
                                   {"share", ColumnType::text},
                                   {"to_result", ColumnType::text, "s"},
                                   {"node_hours", ColumnType::text},
                                   {"host_memory", ColumnType::text}});
  }
  const std::size_t width = columns.size();
  Table table("sizes", std::move(columns));
  for (std::size_t i = 0; i < study.table.sizes.size(); ++i) {
    const study::Size& size = study.table.sizes[i];
    const SizeFacts& facts = study.facts[i];
    const bool knows_memory = std::isfinite(facts.host_memory);
    const bool is_alone = study.table.sizes.size() == 1;
    std::vector<Cell> cells = {
        std::int64_t{size.ranks},
        static_cast<std::int64_t>(size.launches),
        with_interval(size.seconds, 4) + (size.noisier ? " !" : ""),
        is_alone ? "-" : with_interval(size.speedup),
        is_alone ? "-" : with_interval(size.efficiency),
        size.karp_flatt ? with_interval(*size.karp_flatt) : "-",
        facts.bound_by.empty() ? "-" : facts.bound_by,
        cell(facts.bound_share, "{:.2f}"),
        cell(facts.to_result, "{:.3g}"),
        cell(facts.cost.node_hours, "{:.3g}"),
        knows_memory ? format_size(static_cast<std::uint64_t>(facts.host_memory)) : "-"};
    cells.resize(width);  // the brief columns are the first ones
    table.add(std::move(cells));
  }
  return table;
}

std::string of_residuals(const std::vector<study::Residual>& residuals) {
  std::string list;
  for (const study::Residual& residual : residuals) {
    list += fmt::format("{}{:+.2f} % on {}", list.empty() ? "" : ", ", 100 * residual.relative,
                        residual.ranks);
  }
  return list;
}

/// The time per repetition of each phase on `ranks` ranks, by "thread/phase (kind)": the maximum
/// over tracks, ranks and launches.
std::map<std::string, double> phases_on(const StudyReport& study, int ranks) {
  std::map<std::string, double> seconds;
  for (const RunFile* run : study.runs_on(ranks)) {
    for (const PhaseTime& phase : run->phases_of_repetition()) {
      double& longest = seconds[fmt::format("{}/{} ({})", phase.track, phase.phase, phase.kind)];
      longest = std::max(longest, phase.seconds);
    }
  }
  return seconds;
}

/// The ideal time of a size relative to the smallest one: with its work, shared by its ranks.
double ideal_share(const study::Study& table, const study::Size& size) {
  const study::Size& small = table.sizes.front();
  return size.work / small.work * small.ranks / size.ranks;
}

/// "the time on 1 rank divided by 4": the ideal time of a repetition on the largest size.
std::string ideal_of(const StudyReport& study) {
  const study::Size& size = study.table.sizes.back();
  const int small = study.table.anchor, large = size.ranks;
  const std::string base = fmt::format("the time on {}", counted(small, "rank"));
  if (!study.is_strong()) {
    const double share = ideal_share(study.table, size);
    return std::abs(share - 1) < 0.0005
               ? base
               : fmt::format("{} times {:.4g}, the ratio of the work per rank", base, share);
  }
  return large % small == 0 ? fmt::format("{} divided by {}", base, large / small)
                            : fmt::format("{} times {}/{}", base, small, large);
}

/// The phases that limit scaling: those that most exceed, on the largest size, an equal share of
/// their time on the smallest size.
std::string of_serial_part(const StudyReport& study) {
  constexpr double noteworthy = 0.01;  // of the time of a repetition
  constexpr std::size_t max = 3;
  const study::Size& small = study.table.sizes.front();
  const study::Size& large = study.table.sizes.back();
  if (small.ranks == large.ranks) return {};
  const double share = ideal_share(study.table, large);
  const auto before = phases_on(study, small.ranks);
  std::vector<std::pair<double, std::string>> grown;
  for (const auto& [phase, seconds] : phases_on(study, large.ranks)) {
    const auto found = before.find(phase);
    const double excess = seconds - (found == before.end() ? 0 : found->second * share);
    if (excess > noteworthy * large.seconds.value) grown.emplace_back(excess, phase);
  }
  const double excess = large.seconds.value - share * small.seconds.value;
  if (excess <= noteworthy * large.seconds.value) return {};
  std::ranges::sort(grown, std::greater<>());
  if (grown.size() > max) grown.resize(max);
  std::string text = fmt::format(
      "On {} ranks, a repetition should take {} ({}). It takes {} longer.\n", large.ranks,
      format_duration(share * small.seconds.value), ideal_of(study), format_duration(excess));
  if (grown.empty()) return text;
  return text +
         fmt::format(
             "These phases exceed their ideal time most. They overlap, so their times do not add "
             "up. Listed as thread/phase (kind): {}.\n",
             join(grown, ", ", [](const auto& each) {
               return fmt::format("{} +{}", printable(each.second), format_duration(each.first));
             }));
}

/// Gustafson's share s' as Amdahl's s.
std::string of_longer_time(const StudyReport& study) {
  const study::Gustafson& law = *study.laws.gustafson;
  const int largest = study.table.sizes.back().ranks;
  const double share = law.serial_share.value;
  if (!(share >= 0 && share <= 1)) return {};
  return fmt::format(
      "{} would need longer for the work of {} ranks. The same serial time is {:.3g} of that "
      "longer time (Amdahl's s).\n",
      counted(law.reference, "rank"), largest,
      study::share_of_reference(share, static_cast<double>(largest) / law.reference));
}

/// The law that the options set; empty without one.
std::string of_configured(const StudyReport& study) {
  return study.laws.configured ? "Configured law: " + words_on_configured(study) + '\n' : "";
}

/// The prediction of the law, or the reason why there is none; empty without a law.
std::string of_expected(const StudyReport& study) {
  const std::string expected = words_on_expected(study);
  return expected.empty() ? "" : expected + '\n';
}

/// The fitted law and its prediction.
std::string of_law(const StudyReport& study) {
  const StudyLaws& laws = study.laws;
  std::string text = words_on_law(study) + '\n';
  const auto& residuals = laws.amdahl      ? laws.amdahl->law.residuals
                          : laws.gustafson ? laws.gustafson->residuals
                                           : std::vector<study::Residual>();
  if (residuals.size() > 2) {  // every law fits two points exactly
    text += fmt::format("Measured {} against the law: {} ranks.\n",
                        study.is_strong() ? "times" : "speed-ups", of_residuals(residuals));
  }
  if (laws.amdahl && laws.amdahl->serial_share.interval &&
      laws.amdahl->serial_share.interval->hi < 0) {
    text += "The serial share is below zero: the speed-up is superlinear.\n";
  }
  if (laws.gustafson && !study.is_law_rejected()) text += of_longer_time(study);
  return text + of_configured(study) + of_expected(study);
}

/// Explains superlinear points, as far as the files allow.
std::string of_superlinear(const StudyReport& study) {
  const std::vector<int> sizes = study::superlinear(study.table);
  if (sizes.empty()) return {};
  const auto last = std::ranges::find(study.table.sizes, sizes.back(), &study::Size::ranks);
  const SizeFacts& before = study.facts.front();
  const SizeFacts& then = study.facts[static_cast<std::size_t>(last - study.table.sizes.begin())];
  std::vector<std::string_view> causes;
  std::string changed;
  if (before.bound_by != then.bound_by) {
    changed = fmt::format("the bound changes from {} to {}", printable(before.bound_by),
                          printable(then.bound_by));
    causes.push_back(changed);
  }
  if (before.page_cache != then.page_cache) causes.push_back("the state of the page cache differs");
  std::vector<std::uint64_t> numbers(sizes.begin(), sizes.end());
  return fmt::format("Faster than linear on {} ranks: {}.\n", join(numbers, ", "),
                     causes.empty()
                         ? "the share of a rank shrinks with more ranks, so more of it may fit "
                           "into caches; the files show no other cause"
                         : join(causes, "; "));
}

/// The time from the start of the launcher to its end, or from the start of the processes to the
/// file.
std::string of_start(const StudyReport& study) {
  const int largest = study.table.sizes.back().ranks;
  const auto runs = study.runs_on(largest);
  std::string list;
  const auto add = [&list](const char* name, double seconds) {
    if (!std::isfinite(seconds)) return;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", name,
                        format_duration(std::max(0.0, seconds)));
  };
  add("launcher", study.facts.back().launcher);
  double before = 0;
  for (const char* step : {"mpi", "open", "device", "communicator", "ceilings", "allocate", "load",
                           "begin", "work", "verify", "store"}) {
    const double at = median_of(runs, [&](const RunFile& run) { return run.step(step); });
    if (!std::isfinite(at)) continue;
    add(step == std::string_view("begin") ? "warm-up" : step, at - before);
    before = std::max(before, at);  // of steps that took turns, the later end counts
  }
  add("end", median_of(runs, [](const RunFile& run) { return run.launcher.end; }));
  return fmt::format("Time to result on {}: {} with {}. Its steps: {}.\n", counted(largest, "rank"),
                     format_duration(study.facts.back().to_result),
                     repetitions_of({study.facts.back()}), list);
}

/// Problems that the reader must know before trusting the numbers.
std::string of_warnings(const StudyReport& study) {
  const std::size_t throttled = study.throttled(), unconverged = study.unconverged();
  std::string text;
  if (study.drift && study.drift->significant) {
    text += fmt::format("Times changed by {} from the first launch to the last (p = {:.2g}).\n",
                        format_change(study.drift->total), study.drift->p_value);
  }
  for (const std::string& outlier : words_on_outliers(study)) {
    text += fmt::format("Outlier: {}.\n", printable(outlier));
  }
  if (throttled > 0) {
    text += fmt::format(
        "A GPU lowered its clock because of power or temperature in {} of {}. These launches are "
        "included.\n",
        throttled, counted(study.runs.size(), "launch"));
  }
  if (unconverged > 0) {
    text += fmt::format(
        "{} of {} did not converge: the 95 % interval of the median is wider than "
        "measure.precision.\n",
        unconverged, counted(study.runs.size(), "launch"));
  }
  if (const std::size_t partly = study.partly_verified(); partly > 0) {
    text += fmt::format(
        "The results of {} of {} could be verified only in part or not at all (the attribute "
        "verdict of /results says why).\n",
        partly, counted(study.runs.size(), "launch"));
  }
  if (!study.contradiction.empty()) {
    text += fmt::format("FAILED: {}.\n", printable(study.contradiction));
  }
  for (const ExcludedFile& file : study.excluded) {
    text +=
        fmt::format("Excluded: {}: {}.\n", printable(file.path.string()), printable(file.reason));
  }
  for (const std::string& note : study.notes) text += fmt::format("Note: {}.\n", printable(note));
  if (const auto& missing = study.unfinished.missing; !missing.empty()) {
    const std::vector<std::string_view> names(missing.begin(), missing.end());
    text += fmt::format("Missing: {}. The same scale command launches them.\n",
                        printable(join(names, ", ")));
  }
  for (const std::string& sentence : words_on_attempts(study)) text += printable(sentence) + ".\n";
  return text;
}

/// Explains the times and their intervals.
std::string of_intervals(const StudyReport& study) {
  std::string text = fmt::format(
      "Times: a launch counts as the median of its {}, a size as the geometric mean of its "
      "launches.",
      repetitions_of(study.facts));
  if (const std::string reference = words_on_reference(study.table); !reference.empty()) {
    text += ' ' + reference;
  }
  text += "\nIntervals: " + words_on_intervals(study.table, "!");
  const bool is_bounded = std::ranges::any_of(
      study.facts, [](const SizeFacts& facts) { return std::isfinite(facts.bound_share); });
  if (is_bounded) {
    text +=
        "\nShare: the time that the work would take at the measured limit bound_by, divided by the "
        "time of the run.";
  }
  const std::string exceeded = words_on_shares(study.facts);
  return text + (exceeded.empty() ? "\n" : fmt::format(" {}\n", exceeded));
}

std::string start_of(const StudyReport& study, Detail detail) {
  const std::string time = words_on_time(study);
  return fmt::format("{}: {} scaling of {}, {} on {}{}\n\n{}\n", printable(study.name),
                     study.is_strong() ? "strong" : "weak", printable(study.workload),
                     counted(study.runs.size(), "launch"), printable(study.device),
                     time.empty() ? "" : fmt::format("; time: {}", printable(time)),
                     shardstream::to_text(without_empty_columns(size_table(study, detail))));
}

/// Explains the marks of the brief table; empty if it has none.
std::string of_marks(const study::Study& table) {
  if (!table.has_intervals()) return {};
  const bool has_noisier = std::ranges::any_of(table.sizes, &study::Size::noisier);
  return fmt::format("In brackets: 95 % intervals over launches.{}{}\n", has_noisier ? " " : "",
                     has_noisier ? meaning_of_mark : "");
}

std::string brief(const StudyReport& study) {
  return start_of(study, Detail::brief) + of_marks(study.table) + words_on_law(study) + '\n' +
         of_configured(study) + of_expected(study) + of_warnings(study);
}

std::string of_study(const StudyReport& study) {
  std::string text = start_of(study, Detail::full);
  text += of_intervals(study);
  text += of_law(study);
  if (study.laws.scalability) {
    text += fmt::format("Universal scalability: contention {}, coherency {}.\n",
                        with_interval(study.laws.scalability->contention),
                        with_interval(study.laws.scalability->coherency));
  }
  text += of_superlinear(study);
  text += of_serial_part(study) + of_start(study);
  if (const std::string cost = words_of(study.cost); !cost.empty()) {
    text += fmt::format("The whole study took {}.\n", cost);
  }
  return text + of_warnings(study);
}

}  // namespace

std::string with_interval(const Estimate& estimate, int digits) {
  if (!estimate.interval) return fmt::format("{:.{}g}", estimate.value, digits);
  return fmt::format("{:.{}g} [{:.{}g}, {:.{}g}]", estimate.value, digits, estimate.interval->lo,
                     digits, estimate.interval->hi, digits);
}

std::string to_text(const Report& report, Detail detail) {
  std::string text = report.together ? together_text(report) : "";
  for (std::size_t i = 0; i < report.studies.size(); ++i) {
    const StudyReport& study = report.studies[i];
    std::string words = detail == Detail::full ? of_study(study)
                        : report.together      ? of_warnings(study)
                                               : brief(study);
    if (detail == Detail::brief && report.together && !words.empty()) {
      words = fmt::format("{}:\n{}", report.together->studies[i].letter, words);
    }
    text += fmt::format("{}{}", text.empty() || words.empty() ? "" : "\n", words);
  }
  for (const BenchFile& bench : report.benches) {
    text += fmt::format("{}{}", text.empty() ? "" : "\n", to_text(bench));
  }
  for (const ExcludedFile& file : report.unreadable) {
    text += fmt::format("Unreadable: {}.\n", printable(file.reason));
  }
  return text;
}

}  // namespace shardstream::report
