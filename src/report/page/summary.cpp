#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.hpp"
#include "core/units.hpp"
#include "report/formats.hpp"
#include "report/page/sections.hpp"
#include "report/words.hpp"

namespace shardstream::report::page {
namespace {

constexpr double good_baseline = 0.5;  // share of its ceiling

std::string capitalised(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

/// The prediction of the law, with the cost of a repetition there.
std::string expected(const StudyReport& study) {
  const std::string text = words_on_expected(study);
  if (!study.laws.expected || !study.laws.expected->seconds) return text;
  const study::Extrapolation& next = *study.laws.expected;
  const study::Size& last = study.table.sizes.back();
  return fmt::format("{} A repetition costs {} rank-seconds there and {} on {}.", text,
                     number_text(next.ranks * next.seconds->value, 3),
                     number_text(last.ranks * last.seconds.value, 3), counted(last.ranks, "rank"));
}

/// "94 % of link_up"; "the limit link_up (share 1.15)" if the run was faster than the measured
/// limit; empty without a limit.
std::string bound_at(const SizeFacts& facts) {
  if (facts.bound_by.empty() || !std::isfinite(facts.bound_share)) return {};
  if (exceeds_bound(facts)) {
    return fmt::format("the limit {} (share {})", facts.bound_by,
                       number_text(facts.bound_share, 3));
  }
  return fmt::format("{} % of {}", std::lround(100 * facts.bound_share), facts.bound_by);
}

std::string baseline(const StudyReport& study) {
  const SizeFacts& facts = study.facts.front();
  const std::string bound = bound_at(facts);
  const std::string start =
      fmt::format("{} s on {}", estimate_text(study.table.sizes.front().seconds, 4),
                  counted(study.table.anchor, "rank"));
  if (study.runs.front().is_of_program()) return start + '.';
  if (bound.empty()) return start + "; the files have no measured limit to compare it with.";
  if (facts.bound_share >= good_baseline) return fmt::format("{}, at {}.", start, bound);
  return fmt::format("{}, at {} only. Such a poor baseline makes every speed-up look better.",
                     start, bound);
}

std::string what_bounds(const StudyReport& study) {
  const std::string bound = bound_at(study.facts.back());
  const int ranks = study.table.sizes.back().ranks;
  if (study.runs.front().is_of_program()) return {};
  if (bound.empty()) return "The files have no measured limit of the runs.";
  std::string text = fmt::format("The slowest measured limit of the run: {} reach {}",
                                 counted(ranks, "rank"), bound);
  if (const std::string first = bound_at(study.facts.front()); study.facts.size() > 1) {
    text += fmt::format(", and {} {}", counted(study.table.anchor, "rank"), first);
  }
  text += '.';
  if (const std::string exceeded = words_on_shares(study.facts); !exceeded.empty()) {
    text += ' ' + exceeded;
  }
  constexpr double near = 0.9;
  if (study.facts.back().bound_share >= near) return text;
  return text + " This limit does not explain the rest: see the figures on where the time goes.";
}

/// The time to the result if the run had only one timed repetition.
double to_result_once(const RunFile& run) {
  return run.to_result() - run.wall() + run.timing.median;
}

std::string time_to_result(const StudyReport& study) {
  const auto runs = study.runs_on(study.table.sizes.back().ranks);
  const double all = study.facts.back().to_result;
  if (!std::isfinite(all)) return {};
  const std::string text = fmt::format(
      "{} from start to file on {} (median of the launches), including {} of timed repetitions.",
      format_duration(std::max(0.0, all)), counted(study.table.sizes.back().ranks, "rank"),
      format_duration(median_of(runs, &RunFile::wall)));
  // Sizes may differ in their number of repetitions.
  const double last = median_of(runs, to_result_once);
  const double first = median_of(study.runs_on(study.table.anchor), to_result_once);
  if (study.facts.size() == 1 || !study.is_strong() || !(first > 0) || !(last > 0)) return text;
  const bool is_faster = first >= last;
  return fmt::format(
      "{} With one repetition, it would be {} on {}, {:.3g} times {} than the {} on {}.", text,
      format_duration(last), counted(study.table.sizes.back().ranks, "rank"),
      is_faster ? first / last : last / first, is_faster ? "faster" : "slower",
      format_duration(first), counted(study.table.anchor, "rank"));
}

std::string trust(const StudyReport& study) {
  std::size_t verified = 0, with_values = 0;
  for (const RunFile& run : study.runs) {
    verified += run.text("verified") == "true" ? 1 : 0;
    with_values += run.values.empty() ? 0 : 1;
  }
  std::string text =
      fmt::format("Results verified in {} of {}", verified, counted(study.runs.size(), "launch"));
  if (!study.contradiction.empty()) return text + ", but results contradict each other.";
  if (with_values == study.runs.size() && study.is_strong() && study.table.sizes.size() > 1) {
    text += "; the result is the same at every size";
  }
  text += fmt::format(". {} excluded, {} failed", study.excluded.size(),
                      study.unfinished.failed.size());
  if (const std::size_t throttled = study.throttled(); throttled > 0) {
    text += fmt::format(", {} of {} with a throttled GPU", throttled,
                        counted(study.runs.size(), "launch"));
  }
  return text + '.';
}

std::string studied(const StudyReport& study) {
  const std::vector<int> ranks = ranks_of(study);
  const RunFile& run = study.runs.front();
  const std::string precision = run.text("precision");
  const std::string what =
      precision.empty() ? study.workload : fmt::format("{} in {}", study.workload, precision);
  const std::string work = fmt::format("{} {} a repetition{}", number_text(run.work), study.unit,
                                       study.is_strong() ? "" : " on the smallest size");
  const std::string sizes = ranks.size() == 1
                                ? counted(ranks.front(), "rank")
                                : fmt::format("{} to {} ranks", ranks.front(), ranks.back());
  const bool one_gpu_each = std::ranges::all_of(
      study.runs, [](const RunFile& each) { return each.size.gpus == each.size.ranks; });
  const std::string time = words_on_time(study);
  return fmt::format("{}{}, {}, on {} of {}{}; {}{}.",
                     ranks.size() == 1   ? ""
                     : study.is_strong() ? "Strong scaling of "
                                         : "Weak scaling of ",
                     what, work, sizes, study.device, one_gpu_each ? ", one GPU each" : "",
                     counted(study.runs.size(), "launch"),
                     time.empty() ? "" : fmt::format("; time: {}", time));
}

std::string tiles(const StudyReport& study) {
  const study::Size& last = study.table.sizes.back();
  const auto tile = [](const std::string& value, const std::string& label) {
    return fmt::format("<li><b>{}</b><span>{}</span></li>\n", escape(value), escape(label));
  };
  const auto interval = [](const study::Estimate& estimate) {
    return estimate.interval ? fmt::format(" [{}, {}]", number_text(estimate.interval->lo, 3),
                                           number_text(estimate.interval->hi, 3))
                             : std::string();
  };
  std::string html = "<ul class=\"tiles\">\n";
  if (study.table.sizes.size() > 1) {
    html += tile(number_text(last.speedup.value, 3),
                 fmt::format("speed-up on {} ranks{}", last.ranks, interval(last.speedup)));
    html += tile(number_text(last.efficiency.value, 3),
                 fmt::format("efficiency{}", interval(last.efficiency)));
  } else {
    html += tile(format_duration(last.seconds.value), "time of a repetition");
    html += tile(number_text(last.work / last.seconds.value),
                 fmt::format("{}/s, rate of all ranks", study.unit));
  }
  if (const std::string bound = bound_at(study.facts.back()); !bound.empty()) {
    const SizeFacts& facts = study.facts.back();
    html += exceeds_bound(facts)
                ? tile("at the ceiling",
                       fmt::format("{}, which was measured lower than the run (share {})",
                                   facts.bound_by, number_text(facts.bound_share, 3)))
                : tile(fmt::format("{} %", std::lround(100 * facts.bound_share)),
                       fmt::format("of the ceiling {}", facts.bound_by));
  }
  if (study.laws.expected) {
    const study::Extrapolation& next = *study.laws.expected;
    const study::Fit& fit = *study.fit();
    const char* const caution = fit.verdict == study::FitVerdict::fits ? ""
                                : fit.verdict == study::FitVerdict::unclear
                                    ? " by a law that may not fit"
                                    : " by an untested law";
    html += tile(number_text(next.speedup.value_or(next.efficiency).value, 3),
                 fmt::format("{} extrapolated to {} ranks{}",
                             next.speedup ? "speed-up" : "efficiency", next.ranks, caution));
  }
  return html + "</ul>\n";
}

}  // namespace

std::string summary(const DetailedStudy& detailed) {
  const StudyReport& study = *detailed.study;
  const study::Size& last = study.table.sizes.back();
  const bool has_sizes = study.table.sizes.size() > 1;
  std::string list;
  const auto add = [&](const char* name, const std::string& text) {
    if (!text.empty()) list += fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, escape(text));
  };
  add("Studied", studied(study));
  add("Baseline", baseline(study));
  if (has_sizes) {
    add("Speed-up", fmt::format("{} on {} ranks. {}", estimate_text(last.speedup), last.ranks,
                                words_on_reference(study.table)));
    add("Efficiency", fmt::format("{} on {} ranks.", estimate_text(last.efficiency), last.ranks));
  }
  add("Limit", what_bounds(study));
  if (has_sizes) add("Serial part", words_on_law(study));
  add("Configured law", capitalised(words_on_configured(study)));
  add("Twice the size", expected(study));
  add("To the result", time_to_result(study));
  add("Trust", trust(study));
  add("Intervals", capitalised(words_on_intervals(study.table)));
  return fmt::format("{}<dl class=\"short\">\n{}</dl>\n", tiles(study), list);
}

std::string title_of(const Report& report, std::size_t study) {
  const std::string& name = report.studies[study].name;
  return report.together ? fmt::format("{}: {}", report.together->studies[study].letter, name)
                         : name;
}

std::string overview(const Report& report) {
  std::string html =
      "<h2>In short</h2>\n<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>section</th>"
      "<th>workload</th><th>mode</th><th>device</th><th class=\"n\">ranks</th>"
      "<th class=\"n\">speed-up</th><th class=\"n\">efficiency</th><th>bound by</th></tr></thead>"
      "<tbody>\n";
  for (std::size_t i = 0; i < report.studies.size(); ++i) {
    const StudyReport& study = report.studies[i];
    const study::Size& last = study.table.sizes.back();
    const bool has_sizes = study.table.sizes.size() > 1;
    const std::string bound = bound_at(study.facts.back());
    html += fmt::format(
        "<tr><td><a href=\"#s{}\">{}</a></td><td>{}</td><td>{}</td><td>{}</td>"
        "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>\n",
        i + 1, escape(title_of(report, i)), escape(study.workload),
        !has_sizes          ? "one size"
        : study.is_strong() ? "strong"
                            : "weak",
        escape(study.device), last.ranks, has_sizes ? estimate_text(last.speedup) : "-",
        has_sizes ? estimate_text(last.efficiency) : "-", bound.empty() ? "-" : escape(bound));
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace shardstream::report::page
