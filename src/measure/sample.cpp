#include "measure/sample.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/statistics.hpp"
#include "core/units.hpp"

namespace shardstream::measure {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array sample_rows = {
    OptionRow{
        "measure.warmup", OptionKind::count, "0", "0..1000000",
        "Untimed runs of the work before the timed ones; at least 1 with measure.repeat auto."},
    OptionRow{"measure.repeat", OptionKind::count, "1", "auto|1..1000000",
              "Timed runs of the work. Their results must be identical, or the run fails. auto "
              "repeats up to 1000 times, until the median is as precise as measure.precision."},
    OptionRow{"measure.precision", OptionKind::number, "0.01", "0.0001..1",
              "measure.repeat auto stops when the 95 % interval of the median time is within this "
              "fraction of the median, on both sides."},
    OptionRow{
        "measure.max-time", OptionKind::duration, "60s", "1ms..",
        "measure.repeat auto stops at the latest when this time has passed since the start of "
        "the first timed run."},
    OptionRow{"measure.rates", OptionKind::text, "", "",
              "A result file of the same machine. Matrix products plan with its measured rates "
              "instead of measuring their own, so that several runs have the same plan."},
    OptionRow{"measure.timeline", OptionKind::flag, "false", "",
              "Record every span of time, in the result file and in a trace for Perfetto next to "
              "it; needs about 400 bytes of rank 0's memory per span."},
};

}  // namespace

std::span<const OptionRow> measure_options() {
  return sample_rows;
}

Sampling sampling(const Options& options) {
  const bool automatic = options.is_auto("measure.repeat");
  Sampling policy{.warmup = options.count("measure.warmup"),
                  .precision = options.number("measure.precision"),
                  .max_time = options.seconds("measure.max-time")};
  if (automatic) {
    policy.warmup = std::max<std::uint64_t>(1, policy.warmup);
  } else {
    policy.repetitions = options.count("measure.repeat");
  }
  return policy;
}

const char* word_of(Convergence convergence) {
  constexpr const char* names[] = {"fixed", "converged", "unconverged"};
  return names[static_cast<std::size_t>(convergence)];
}

std::optional<Convergence> end_of_sampling(std::span<const double> seconds, double elapsed,
                                           const Sampling& policy) {
  if (policy.repetitions) {
    if (seconds.size() < *policy.repetitions) return std::nullopt;
    return Convergence::fixed;
  }
  const Summary s = summarize({seconds.begin(), seconds.end()});
  // False for fewer than six samples, whose bounds are NaN.
  if (s.ci_lo >= s.median * (1 - policy.precision) &&
      s.ci_hi <= s.median * (1 + policy.precision)) {
    return Convergence::converged;
  }
  if (seconds.size() >= Sampling::max_repetitions || elapsed >= policy.max_time) {
    return Convergence::unconverged;
  }
  return std::nullopt;
}

std::vector<double> Samples::seconds() const {
  std::vector<double> all;
  for (const Repetition& repetition : repetitions) all.push_back(repetition.seconds);
  return all;
}

Samples sample(const ranks::Session& session, const Sampling& policy,
               const std::function<void(bool timed)>& work, Recorder* recorder,
               const std::function<void()>& check) {
  const auto settle = [&](bool timed) {
    if (recorder == nullptr) return;
    recorder->settle();
    recorder->begin_work(timed);
  };
  const auto call = [&](bool timed) {
    settle(timed);
    const TimeInterval mine = time_in_step(session, [&] { work(timed); });
    if (check) check();
    return mine;
  };
  for (std::uint64_t i = 0; i < policy.warmup; ++i) call(false);
  Samples samples;
  std::vector<double> seconds;
  std::optional<Convergence> end;
  while (!end) {
    const TimeInterval mine = call(true);
    const auto first = seconds.empty() ? mine.begin : samples.repetitions.front().begin;
    const double passed = TimeInterval{first, mine.end}.seconds();
    const auto all = session.gather(std::vector<double>{mine.seconds(), passed});
    std::vector<double> ranks;
    for (std::size_t i = 0; i < all.size(); i += 2) ranks.push_back(all[i]);
    seconds.push_back(*std::ranges::max_element(ranks));
    samples.repetitions.push_back({seconds.back(), std::move(ranks), mine.begin, mine.end});
    end = end_of_sampling(seconds, all[1],
                          policy);  // rank 0's clock: the same decision on every rank
  }
  settle(false);
  samples.convergence = *end;
  return samples;
}

void warn_if_unconverged(const Samples& samples, const Sampling& policy, Log& log) {
  if (samples.convergence != Convergence::unconverged) return;
  const Summary s = summarize(samples.seconds());
  const std::string reached = std::isnan(s.ci_lo)
                                  ? "too few for a 95 % interval of the median"
                                  : fmt::format("the 95 % interval of the median is {} to {}",
                                                format_change(s.ci_lo / s.median - 1),
                                                format_change(s.ci_hi / s.median - 1));
  const std::string more_time =  // does not help after the maximum number of repetitions
      s.n < Sampling::max_repetitions
          ? fmt::format("measure.max-time (now {}) or ", format_duration(policy.max_time))
          : "";
  log.warn(
      fmt::format("the time has not converged to +-{} in {} repetitions ({}): raise "
                  "{}measure.precision (now {})",
                  format_percent(policy.precision), s.n, reached, more_time, policy.precision));
}

TimeInterval time_in_step(const ranks::Session& session, const std::function<void()>& work) {
  session.barrier();
  const auto begin = Clock::now();
  work();
  return {begin, Clock::now()};
}

double repeat_for(const ranks::Session& session, double seconds,
                  const std::function<void()>& work) {
  double calls = 0;
  const TimeInterval all = time_in_step(session, [&] {
    const auto begin = Clock::now();
    do {
      work();
      ++calls;
    } while (TimeInterval{begin, Clock::now()}.seconds() < seconds);
  });
  return all.seconds() / calls;
}

}  // namespace shardstream::measure
