#include "report/comparison/cases.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/text.hpp"
#include "report/formats.hpp"
#include "report/json_values.hpp"

namespace shardstream::report {
namespace {

using study::Change;
using study::Estimate;

/// A table of at most so many cases shows the unchanged ones too.
constexpr std::size_t max_unchanged = 20;

std::vector<Estimate> times_of(const Case& of) {
  std::vector<Estimate> times = of.launches;
  if (of.more_is_better) std::ranges::transform(times, times.begin(), study::inverse);
  return times;
}

std::vector<study::Repetitions> values_of(const std::vector<Estimate>& launches) {
  std::vector<study::Repetitions> values;
  for (const Estimate& each : launches) values.push_back({each.value});
  return values;
}

CaseComparison compared(const Case& before, const Case& after, const Judgement& judgement) {
  const auto old = times_of(before), now = times_of(after);
  const bool is_single = old.size() == 1 && now.size() == 1;
  return {.before = before,
          .after = after,
          .times = is_single
                       ? study::compare(old[0], now[0], judgement.threshold, judgement.launch_noise)
                       : study::compare(values_of(old), values_of(now), judgement.threshold)};
}

std::string full_name(const Case& each) {
  return each.experiment.empty() ? each.name : fmt::format("{}, {}", each.experiment, each.name);
}

/// The number of cases for which `is` holds.
std::size_t count_if(const CasesComparison& comparison, const auto& is) {
  return static_cast<std::size_t>(std::ranges::count_if(comparison.cases, is));
}

std::string in_unit(double value, const Case& of) {
  return fmt::format("{:.4g}{}{}", value, of.unit.empty() ? "" : " ", of.unit);
}

Table table_of(const CasesComparison& comparison) {
  Table table("cases", {{"experiment", ColumnType::text},
                        {"case", ColumnType::text},
                        {"figure", ColumnType::text},
                        {"OLD", ColumnType::text},
                        {"NEW", ColumnType::text},
                        {"ratio", ColumnType::text},
                        {"verdict", ColumnType::text}});
  for (const CaseComparison& each : comparison.cases) {
    const bool is_changed = each.change() == Change::slower || each.change() == Change::faster;
    if (!is_changed && comparison.cases.size() > max_unchanged) continue;
    const study::Comparison measured = each.measured();
    table.add({each.before.experiment, each.before.name, each.before.figure,
               in_unit(measured.before, each.before), in_unit(measured.after, each.before),
               with_interval(measured.ratio, 4), study::word_of(each.change())});
  }
  return without_empty_columns(table);
}

/// Sentences on the samples behind the verdicts.
std::string words_on_samples(const CasesComparison& comparison) {
  std::string text;
  const auto lacking = count_if(comparison, [](const CaseComparison& each) {
    return !each.times.is_enough() && each.before.experiment.empty();
  });
  if (lacking > 0) {
    text += fmt::format(
        "Too few launches for a verdict on {}: each side needs {}, or one on each side and "
        "--launch-noise.\n",
        counted(lacking, "case"), study::min_launches);
  }
  const auto assumed = count_if(comparison, [](const CaseComparison& each) {
    return each.times.basis == study::Basis::repetitions;
  });
  if (assumed > 0) {
    text += fmt::format(
        "One launch on each side of {}: the intervals assume that launches of one program scatter "
        "by {:g} % (--launch-noise); {} per side measure it.\n",
        counted(assumed, "case"), 100 * comparison.judgement.launch_noise,
        counted(study::min_launches, "launch"));
  }
  const auto uncertain = count_if(comparison, [](const CaseComparison& each) {
    return each.change() == Change::slower && !each.slower_in_family;
  });
  if (uncertain > 0) {
    text += fmt::format(
        "{} slower, but not clearly enough for one of {}, some of which look slower by chance "
        "(Holm's method).\n",
        uncertain == 1 ? "1 case is" : fmt::format("{} cases are", uncertain),
        counted(comparison.cases.size(), "case"));
  }
  return text;
}

/// One line each: the numbers of verdicts, the samples, and cases that are not compared.
std::string sentences_of(const CasesComparison& comparison) {
  std::string text =
      fmt::format("{}: OLD '{}', NEW '{}': {} slower, {} faster, {} the same, {} unclear.\n",
                  counted(comparison.cases.size(), "case"), printable(comparison.before),
                  printable(comparison.after), comparison.count(Change::slower),
                  comparison.count(Change::faster), comparison.count(Change::same),
                  comparison.count(Change::unclear));
  text += words_on_samples(comparison);
  for (const auto& [names, side] :
       {std::pair{&comparison.only_before, "OLD"}, std::pair{&comparison.only_after, "NEW"}}) {
    constexpr std::size_t max = 3;
    if (names->empty()) continue;
    text += fmt::format("Only in {}: {}.\n", side, printable(join_first(*names, max, "; ")));
  }
  for (const std::string& sentence : comparison.not_measured) text += printable(sentence) + ".\n";
  return text;
}

}  // namespace

Case& CaseSide::at(const Case& like) {
  const auto [place, is_new] =
      places_.try_emplace(std::pair(like.experiment, like.name), cases.size());
  if (is_new) cases.push_back(like);
  return cases[place->second];
}

const Case* CaseSide::find(const Case& like) const {
  const auto found = places_.find(std::pair(like.experiment, like.name));
  return found == places_.end() ? nullptr : &cases[found->second];
}

study::Comparison CaseComparison::measured() const {
  return before.more_is_better ? study::of_rates(times, 1) : times;
}

Change CasesComparison::verdict() const {
  if (std::ranges::any_of(cases, &CaseComparison::slower_in_family)) return Change::slower;
  if (count(Change::unclear) + count(Change::slower) > 0) return Change::unclear;
  return count(Change::faster) > 0 ? Change::faster : Change::same;
}

std::size_t CasesComparison::count(Change change) const {
  return static_cast<std::size_t>(std::ranges::count(cases, change, &CaseComparison::change));
}

CasesComparison compare_cases(const CaseSide& before, const CaseSide& after,
                              const Judgement& judgement) {
  CasesComparison comparison;
  comparison.before = before.path;
  comparison.after = after.path;
  comparison.judgement = judgement;
  std::vector<study::Comparison> family;
  for (const Case& each : before.cases) {
    if (const Case* const found = after.find(each)) {
      comparison.cases.push_back(compared(each, *found, judgement));
      family.push_back(comparison.cases.back().times);
    } else {
      comparison.only_before.push_back(full_name(each));
    }
  }
  for (const Case& each : after.cases) {
    if (before.find(each) == nullptr) comparison.only_after.push_back(full_name(each));
  }
  for (const CaseSide* side : {&before, &after}) {
    comparison.not_measured.insert(comparison.not_measured.end(), side->not_measured.begin(),
                                   side->not_measured.end());
  }
  if (comparison.cases.empty()) {
    throw UsageError(
        fmt::format("{} and {} have no case in common: name files with the same experiments, "
                    "benchmarks or keys",
                    excerpt(before.path), excerpt(after.path)));
  }
  const std::vector<bool> slower = study::slower_in_family(family, judgement.threshold);
  for (std::size_t i = 0; i < slower.size(); ++i) comparison.cases[i].slower_in_family = slower[i];
  return comparison;
}

std::string to_text(const CasesComparison& comparison) {
  const Table table = table_of(comparison);
  const std::string text = table.rows().empty() ? "" : shardstream::to_text(table) + '\n';
  return text + sentences_of(comparison) +
         fmt::format("verdict: {}\n", study::word_of(comparison.verdict()));
}

std::string to_markdown(const CasesComparison& comparison) {
  std::string text = fmt::format("**Verdict: {}**\n", study::word_of(comparison.verdict()));
  const std::string sentences = sentences_of(comparison);
  for (const std::string_view each : split(sentences, '\n')) {
    if (!each.empty()) text += fmt::format("\n{}\n", for_markdown(std::string(each)));
  }
  const Table table = table_of(comparison);
  if (table.rows().empty()) return text;
  return text + folded(counted(table.rows().size(), "case"), {table});
}

std::string to_json(const CasesComparison& comparison) {
  Json object = {{"old", comparison.before},
                 {"new", comparison.after},
                 {"threshold", comparison.judgement.threshold},
                 {"launch_noise", comparison.judgement.launch_noise},
                 {"verdict", study::word_of(comparison.verdict())},
                 {"exit_code", exit_code(comparison)}};
  object["cases"] = Json::array();
  for (const CaseComparison& each : comparison.cases) {
    const study::Comparison measured = each.measured();
    Json found = {{"experiment", each.before.experiment},
                  {"case", each.before.name},
                  {"figure", each.before.figure},
                  {"unit", each.before.unit},
                  {"old", number(measured.before)},
                  {"new", number(measured.after)},
                  {"old_launches", each.before.launches.size()},
                  {"new_launches", each.after.launches.size()}};
    put(found, "ratio", measured.ratio);
    found["verdict"] = study::word_of(each.change());
    found["slower_in_family"] = each.slower_in_family;
    object["cases"].push_back(std::move(found));
  }
  object["only_old"] = comparison.only_before;
  object["only_new"] = comparison.only_after;
  object["not_measured"] = comparison.not_measured;
  return to_document(object);
}

int exit_code(const CasesComparison& comparison) {
  const Change verdict = comparison.verdict();
  if (verdict == Change::slower) return static_cast<int>(ExitCode::slower);
  return static_cast<int>(verdict == Change::unclear ? ExitCode::unclear : ExitCode::done);
}

}  // namespace shardstream::report
