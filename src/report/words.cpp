#include "report/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.hpp"
#include "core/units.hpp"
#include "report/formats.hpp"

namespace shardstream::report {
namespace {

std::string deviation_of(double variance) {
  return format_percent(std::sqrt(variance));
}

/// "1.2 %", or "0.51 % on 1 rank to 1.6 % on 8 ranks" if the scatter of these sizes differs.
std::string scatter_of(const study::Study& table) {
  const study::Size *calm = nullptr, *noisy = nullptr;
  for (const study::Size& size : table.sizes) {
    if (size.noisier) continue;
    if (calm == nullptr || size.noise.variance < calm->noise.variance) calm = &size;
    if (noisy == nullptr || size.noise.variance > noisy->noise.variance) noisy = &size;
  }
  const std::string low = deviation_of(calm->noise.variance),
                    high = deviation_of(noisy->noise.variance);
  if (low == high) return low;
  return fmt::format("{} on {} to {} on {}", low, counted(calm->ranks, "rank"), high,
                     counted(noisy->ranks, "rank"));
}

/// "2 ranks" or "2 and 8 ranks": the marked sizes; empty if there are none.
std::string marked_sizes(const study::Study& table) {
  std::vector<std::string> ranks;
  for (const study::Size& size : table.sizes) {
    if (size.noisier) ranks.push_back(fmt::format("{}", size.ranks));
  }
  if (ranks.empty()) return {};
  return ranks == std::vector<std::string>{"1"} ? "1 rank"
                                                : join_and({ranks.begin(), ranks.end()}) + " ranks";
}

/// A sentence that tells whether a law fits. `residuals` are those of the fit.
std::string words_of(const std::string& name, const study::Fit& fit,
                     const std::vector<study::Residual>& residuals) {
  double largest = 0;
  for (const study::Residual& each : residuals) {
    largest = std::max(largest, std::abs(each.relative));
  }
  const std::string error = format_percent(largest);
  const std::string test = fmt::format("lack-of-fit test, p = {:.2g}", fit.p_value);
  switch (fit.verdict) {
    case study::FitVerdict::fits:
      if (fit.p_value < study::test_level) {
        return fmt::format(
            "The law fits: no size is more than {} off. The scatter of launches does not explain "
            "this error ({}), but errors below {} do not count.",
            error, test, format_percent(study::min_relevant));
      }
      return fmt::format(
          "The law fits: no size is more than {} off, which the scatter of launches explains ({}).",
          error, test);
    case study::FitVerdict::does_not_fit:
      return fmt::format(
          "{} does not fit: a size is {} off, which the scatter of launches does not explain ({}).",
          name, error, test);
    case study::FitVerdict::unclear:
      return fmt::format(
          "It is unclear whether the law fits: a size is {} off, but the launches scatter so much "
          "that this may be chance ({}).",
          error, test);
    case study::FitVerdict::untested:
      break;
  }
  return "The law cannot be tested: that needs three sizes and several launches of each.";
}

/// The launch on `ranks` ranks that the bounds of an extrapolated law are for. The study has
/// intervals.
std::string launch_of_bounds(const study::Study& table, double ranks) {
  return fmt::format("one new launch, if the law holds and launches scatter by {} there",
                     deviation_of(table.scatter.of(table.scatter.of_launch(ranks)).variance));
}

/// The end of a phrase on a serial share.
const char* words_on_zero(const study::Estimate& share) {
  const bool may_be_zero = share.interval && share.interval->lo <= 0 && share.interval->hi >= 0;
  return may_be_zero ? ", not distinguishable from zero" : "";
}

}  // namespace

std::string words_on_time(const StudyReport& study) {
  const RunFile& run = study.runs.front();
  if (!run.is_of_program()) return {};
  const std::string metric = run.options.text("scale.metric");
  if (metric == "wall") return "wall time of the program";
  return metric.substr(0, metric.find('=')) + ", printed by the program";
}

std::string words_on_law(const StudyReport& study) {
  const std::string name = study.is_strong() ? "Amdahl's law" : "Gustafson's law";
  std::string test, share;
  if (study.laws.amdahl) {
    const study::Amdahl& law = *study.laws.amdahl;
    test = words_of(name, law.law.fit, law.law.residuals);
    share = fmt::format("serial share s = {}, or {} s of the {:.4g} s on {}{}",
                        with_interval(law.serial_share), with_interval(law.serial_seconds),
                        law.serial_seconds.value + law.parallel_seconds.value,
                        counted(law.reference, "rank"), words_on_zero(law.serial_share));
  } else if (study.laws.gustafson) {
    const study::Gustafson& law = *study.laws.gustafson;
    test = words_of(name, law.fit, law.residuals);
    share = fmt::format("serial share s' = {} of the parallel run{}",
                        with_interval(law.serial_share), words_on_zero(law.serial_share));
  } else {
    return fmt::format("No law is fitted: {}.", study.laws.expected.why_not);
  }
  if (!study.is_law_rejected()) return fmt::format("{}, fitted: {}. {}", name, share, test);
  return fmt::format(
      "{} Do not use its best fit: {}.{}", test, share,
      study.is_strong() ? " The Karp-Flatt metric has the serial share of each size." : "");
}

std::string words_on_configured(const StudyReport& study) {
  if (!study.laws.configured) return {};
  const double share = study.laws.configured->serial_share;
  const char* const name = study.is_strong() ? "s" : "s'";
  if (!study.laws.configured->has_other_costs()) {
    return fmt::format("serial share {} = {:.3g}.", name, share);
  }
  return fmt::format(
      "serial share {} = {:.3g}. Noise, imbalance or overhead make the expected "
      "times longer; a fit to these gives {} = {:.3g}.",
      name, share, name, study.laws.configured->expected_share);
}

std::string words_on_expected(const StudyReport& study) {
  if (study.fit() == nullptr) return {};
  if (!study.laws.expected)
    return fmt::format("Nothing is extrapolated: {}.", study.laws.expected.why_not);
  const study::Extrapolation& next = *study.laws.expected;
  std::string text = fmt::format("Extrapolated to {} ranks, the law predicts ", next.ranks);
  if (next.seconds) text += fmt::format("{} s, ", with_interval(*next.seconds));
  if (next.speedup) text += fmt::format("a speed-up of {} and ", with_interval(*next.speedup));
  text += fmt::format("an efficiency of {}.", with_interval(next.efficiency));
  if (next.efficiency.interval) {
    text += fmt::format(" {} for {}.", next.seconds ? "These intervals are" : "This interval is",
                        launch_of_bounds(study.table, next.ranks));
  }
  if (!next.max_speedup) return text;
  if (study.laws.amdahl->serial_share.value > 1) {
    return text + fmt::format(" The serial share counts as 1: more than {} bring no speed-up.",
                              counted(study.table.anchor, "rank"));
  }
  return text +
         fmt::format(
             " With the best fit, the speed-up stays below 1/s = {:.3g} on any number of ranks.",
             *next.max_speedup);
}

const char* word_of(study::FitVerdict verdict) {
  switch (verdict) {
    case study::FitVerdict::fits:
      return "yes";
    case study::FitVerdict::does_not_fit:
      return "no";
    case study::FitVerdict::unclear:
      return "unclear";
    case study::FitVerdict::untested:
      break;
  }
  return "untested";
}

std::string repetitions_of(const std::vector<SizeFacts>& sizes) {
  const auto min = std::ranges::min(sizes, {}, &SizeFacts::min_repetitions).min_repetitions;
  const auto max = std::ranges::max(sizes, {}, &SizeFacts::max_repetitions).max_repetitions;
  return min == max ? counted(min, "repetition") : fmt::format("{} to {} repetitions", min, max);
}

std::string words_on_intervals(const study::Study& table, std::string_view mark) {
  if (!table.has_intervals()) return "none, since no size has several launches.";
  std::string text =
      fmt::format("95 %, Student's t over launches. The standard deviation between launches is {}",
                  scatter_of(table));
  if (table.sizes.size() > 1) {
    text += ", estimated from the launches of each size and a fit to all sizes";
  }
  const std::string marked = marked_sizes(table);
  if (marked.empty()) return text + '.';
  std::vector<std::string> scatter;
  for (const study::Size& size : table.sizes) {
    if (size.noisier) scatter.push_back(deviation_of(size.noise.variance));
  }
  return text + fmt::format(
                    " except {}{}. There it is {}, at least three times as much as at the others, "
                    "and is estimated from the launches there alone.",
                    marked, mark.empty() ? "" : fmt::format(" (marked {})", mark),
                    join_and({scatter.begin(), scatter.end()}));
}

std::string words_on_reference(const study::Study& table) {
  if (table.sizes.size() < 2) return {};
  std::string text =
      fmt::format("Speed-ups, efficiencies and laws refer to {}", counted(table.anchor, "rank"));
  if (table.anchor > 1) {
    text += fmt::format(
        ", the smallest size: it counts as a speed-up of {} and an efficiency of 1, and serial "
        "shares are parts of its time",
        table.anchor);
  }
  return text + '.';
}

std::vector<std::string> words_on_outliers(const StudyReport& study) {
  std::vector<std::string> sentences;
  for (const study::Outlier& outlier : study.outliers) {
    const RunFile& run = study.runs[outlier.launch];
    const bool is_one_of_two = study.runs_on(run.size.ranks).size() == 2;
    sentences.push_back(
        fmt::format("{} took {} times the time of the other {} on {}{}; it counts in all numbers",
                    run.path.string(), format_rounded(outlier.factor),
                    is_one_of_two ? "launch" : "launches", counted(run.size.ranks, "rank"),
                    is_one_of_two ? ", and only a third one can tell which of them is usual" : ""));
  }
  return sentences;
}

std::string words_of(const Cost& cost) {
  if (!std::isfinite(cost.node_hours)) return {};
  return fmt::format(
      "{:.3g} node-hours{}", cost.node_hours,
      cost.gpu_hours > 0 ? fmt::format(" and {:.3g} GPU-hours", cost.gpu_hours) : "");
}

std::vector<std::string> words_on_attempts(const StudyReport& study) {
  std::vector<std::string> sentences;
  const auto add = [&](const char* end, const study_folder::LaunchAttempt& attempt) {
    sentences.push_back(fmt::format("{}: {}, attempt {}{}: {} (logs/{})", end, attempt.name(),
                                    attempt.number,
                                    attempt.job.empty() ? "" : fmt::format(", job {}", attempt.job),
                                    attempt.problem, attempt.log));
  };
  for (const auto& attempt : study.unfinished.failed) add("Failed", attempt);
  for (const auto& attempt : study.unfinished.interrupted) add("Interrupted", attempt);
  return sentences;
}

bool exceeds_bound(const SizeFacts& facts) {
  constexpr double shown_as_more = 1.005;
  return facts.bound_share >= shown_as_more;
}

std::string words_on_shares(const std::vector<SizeFacts>& sizes) {
  return std::ranges::any_of(sizes, exceeds_bound)
             ? "A share above 1 means that the limit was measured too low."
             : "";
}

}  // namespace shardstream::report
