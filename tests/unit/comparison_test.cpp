#include "study/comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "core/statistics.hpp"

namespace shardstream::study {
namespace {

using Launches = std::vector<Repetitions>;

/// Launches of one repetition whose geometric mean is `seconds`: one on it, others around it.
Launches around(double seconds, double d) {
  return {{seconds * std::exp(-d)}, {seconds}, {seconds * std::exp(d)}};
}

TEST(Comparison, PooledIntervalByHand) {
  const double d = 0.01;
  const Comparison found = compare(around(2, d), around(3, d), 0.02);
  EXPECT_NEAR(found.before, 2, 1e-12);
  EXPECT_NEAR(found.after, 3, 1e-12);
  EXPECT_NEAR(found.ratio.value, 1.5, 1e-12);
  // Each side: variance d^2 with 2 degrees of freedom; the difference's error is d sqrt(2/3), and
  // t(4) is 2.7764.
  const double half = 2.7764451 * d * std::sqrt(2.0 / 3);
  EXPECT_NEAR(found.ratio.interval->lo, 1.5 * std::exp(-half), 1e-8);
  EXPECT_NEAR(found.ratio.interval->hi, 1.5 * std::exp(half), 1e-8);
  EXPECT_EQ(found.basis, Basis::launches);
  EXPECT_EQ(found.change, Change::slower);
}

TEST(Comparison, ALaunchCountsOnceAsItsMedian) {
  const Launches once = {{2}, {2.1}, {1.9}};
  const Launches often = {{1, 2, 90}, {2.1, 2.1, 2.1, 2.1}, {0.1, 1.9, 1.9, 1.9}};
  const Comparison found = compare(once, often, 0.02);
  EXPECT_DOUBLE_EQ(found.ratio.value, 1);
  EXPECT_DOUBLE_EQ(found.ratio.interval->hi, compare(once, once, 0.02).ratio.interval->hi);
}

TEST(Comparison, UnequalScatterIsNotPooled) {
  // Variances 1e-6 and 0.01 with 4 degrees of freedom each: the larger one decides, with df near 4.
  const auto five = [](double d) {
    const double step = d / std::sqrt(2.5);  // of -2..2, whose variance is 2.5
    Launches launches;
    for (int i = -2; i <= 2; ++i) launches.push_back({std::exp(i * step)});
    return launches;
  };
  const Comparison found = compare(five(0.001), five(0.1), 0.02);
  const double error = std::sqrt((1e-6 + 1e-2) / 5);
  EXPECT_NEAR(std::log(found.ratio.interval->hi) / error, 2.776, 0.01);  // t(4), and not t(8)
}

TEST(Comparison, IntervalOfOneLaunchASideByHand) {
  // For six repetitions, the interval is their range. Their order has no autocorrelation.
  const Repetitions before = {1.03, 1.05, 1.00, 1.01, 1.04, 1.02};
  const Repetitions after = {2.04, 2.10, 2.00, 2.01, 2.06, 2.02};
  const double ratio = 2.03 / 1.025;
  for (const double noise : {0.0, 0.01, 0.05}) {
    const Comparison found = compare(Launches{before}, Launches{after}, 0.02, noise);
    const double between = 1.959964 * std::sqrt(2) * noise;
    EXPECT_NEAR(found.ratio.value, ratio, 1e-12);
    EXPECT_NEAR(
        found.ratio.interval->lo,
        ratio * std::exp(-std::hypot(std::log(2.03 / 2.00), std::log(1.05 / 1.025), between)),
        1e-12);
    EXPECT_NEAR(
        found.ratio.interval->hi,
        ratio * std::exp(std::hypot(std::log(2.10 / 2.03), std::log(1.025 / 1.00), between)),
        1e-12);
    EXPECT_EQ(found.basis, Basis::repetitions);
    EXPECT_EQ(found.change, Change::slower);
  }
}

TEST(Comparison, OneLaunchASideIsUnclearWithinTheNoiseOfLaunches) {
  const Repetitions before(6, 1.0), after(6, 1.1);
  const auto verdict = [&](double noise) {
    return compare(Launches{before}, Launches{after}, 0.02, noise).change;
  };
  EXPECT_EQ(verdict(default_launch_noise), Change::unclear);
  EXPECT_EQ(verdict(0.01), Change::slower);
  EXPECT_EQ(compare(Launches{before}, Launches{before}, 0.02).change, Change::unclear);
  EXPECT_EQ(compare(Launches{before}, Launches{before}, 0.02, 0.005).change, Change::same);
  EXPECT_EQ(compare(Launches{before}, Launches{Repetitions(6, 1.2)}, 0.02).change, Change::slower);
}

TEST(Comparison, CorrelatedRepetitionsWidenTheInterval) {
  const Repetitions mixed = {1.03, 1.05, 1.00, 1.01, 1.04, 1.02};
  const Repetitions drifting = {1.00, 1.01, 1.02, 1.03, 1.04, 1.05};
  const auto width = [](const Repetitions& side) {
    const auto ratio = compare(Launches{side}, Launches{side}, 0.02, 0).ratio;
    return ratio.interval->hi - ratio.interval->lo;
  };
  EXPECT_GT(width(drifting), 2 * width(mixed));
}

TEST(Comparison, VerdictsLieOnTheSidesOfTheThreshold) {
  const auto verdict = [](double after, double d, double threshold = 0.02) {
    return compare(around(1, d), around(after, d), threshold).change;
  };
  const double d = 0.001;  // the interval is +-0.23 %
  EXPECT_EQ(verdict(1.03, d), Change::slower);
  EXPECT_EQ(verdict(0.97, d), Change::faster);
  EXPECT_EQ(verdict(1.01, d), Change::same);
  EXPECT_EQ(verdict(0.99, d), Change::same);
  EXPECT_EQ(verdict(1.02, d), Change::unclear);  // the interval crosses the threshold
  EXPECT_EQ(verdict(0.98, d), Change::unclear);
  EXPECT_EQ(verdict(1, 0.1), Change::unclear);  // wider than both thresholds
  EXPECT_EQ(verdict(1.03, d, 0.05), Change::same);
  EXPECT_EQ(verdict(1, 0), Change::same);  // without any scatter
  EXPECT_EQ(verdict(1.03, 0), Change::slower);
}

TEST(Comparison, TooFewSamplesAreUnclearWithTheMissingNumber) {
  struct Case {
    Launches launches;
    std::size_t missing_launches, missing_repetitions;
  };
  const Repetitions six(6, 1.0);
  for (const auto& [launches, missing_launches, missing_repetitions] :
       {Case{{{1}}, 2, 5}, Case{{{1, 1, 1, 1, 1}}, 2, 1}, Case{{{1, 1}, {1}}, 1, 5},
        Case{{six}, 0, 0}, Case{{six, six}, 0, 0}, Case{{six, {1}}, 1, 5},
        Case{{{1}, {1}, {1}}, 0, 0}}) {
    // A thousand times slower, without scatter: only the number of samples can be in the way.
    const Launches slow = {{1000}, {1000}, {1000}};
    for (const Comparison& found : {compare(launches, slow, 0.02), compare(slow, launches, 0.02)}) {
      const bool is_first = found.before < 2;
      const SideSamples& sampling = is_first ? found.sampling_before : found.sampling_after;
      SCOPED_TRACE(testing::Message() << launches.size() << " launches, first " << is_first);
      EXPECT_EQ(sampling.launches, launches.size());
      EXPECT_EQ(sampling.missing_launches, missing_launches);
      EXPECT_EQ(sampling.missing_repetitions, missing_repetitions);
      const Change enough = is_first ? Change::slower : Change::faster;
      EXPECT_EQ(found.change, missing_launches == 0 ? enough : Change::unclear);
    }
  }
}

TEST(Comparison, FewRepetitionsOfOneLaunchASideHaveNoInterval) {
  const Comparison found = compare(Launches{{1, 1, 1}}, Launches{{2, 2, 2}}, 0.02);
  EXPECT_FALSE(found.ratio.interval);
  EXPECT_EQ(found.basis, Basis::nothing);
  EXPECT_DOUBLE_EQ(found.ratio.value, 2);
}

TEST(Comparison, LaunchesToDecideNarrowTheInterval) {
  // n launches a side that keep the ratio and the variance of `around`, which is d^2.
  const auto launches = [](std::size_t n, double seconds, double d) {
    const double step = d * std::sqrt((static_cast<double>(n) - 1) / static_cast<double>(n));
    Launches side;
    for (std::size_t i = 0; i < n; ++i) {
      side.push_back({seconds * std::exp(i % 2 == 0 ? step : -step)});
    }
    return side;
  };
  const double d = 0.01;
  for (const double ratio : {1.0, 1.005, 1.035, 0.965}) {
    const Comparison unclear = compare(around(1, d), around(ratio, d), 0.02);
    ASSERT_EQ(unclear.change, Change::unclear) << ratio;
    const auto needed = launches_to_decide(unclear, 0.02);
    ASSERT_TRUE(needed) << ratio << needed.why_not;
    const std::size_t even = (*needed + 1) / 2 * 2, less = (*needed - 1) / 2 * 2;
    EXPECT_NE(compare(launches(even, 1, d), launches(even, ratio, d), 0.02).change, Change::unclear)
        << ratio << ' ' << even;
    if (less >= 4) {
      EXPECT_EQ(compare(launches(less, 1, d), launches(less, ratio, d), 0.02).change,
                Change::unclear)
          << ratio << ' ' << less;
    }
  }
  // By hand, r = 1: t(2n - 2) d sqrt(2 / n) < log 1.02 = 0.0198 for n = 4: 2.447 x 0.00707 =
  // 0.0173, and not for n = 3: 2.776 x 0.00816 = 0.0227.
  EXPECT_EQ(*launches_to_decide(compare(around(1, d), around(1, d), 0.02), 0.02), 4U);
}

TEST(Comparison, NoNumberOfLaunchesDecidesIfItIsClearUnknownOrTooLarge) {
  const auto why = [](const Launches& before, const Launches& after) {
    return launches_to_decide(compare(before, after, 0.02), 0.02).why_not;
  };
  EXPECT_NE(why(around(1, 0.001), around(2, 0.001)), "");
  EXPECT_NE(why({{1, 2, 3, 4, 5, 6}}, {{1, 2, 3, 4, 5, 6}}), "");
  EXPECT_NE(why({{1}}, {{1}}), "");
  EXPECT_NE(why(around(1, 0.01), around(1.02, 0.01)).find("50"), std::string::npos);
  EXPECT_NE(why(around(1, 0.5), around(1, 0.5)).find("50"), std::string::npos);
}

TEST(Comparison, OfRatesIsTheInverseWithTheSameVerdict) {
  const Comparison times = compare(around(2, 0.01), around(4, 0.01), 0.02);
  const Comparison rates = of_rates(times, 8);
  EXPECT_NEAR(rates.before, 4, 1e-12);
  EXPECT_NEAR(rates.after, 2, 1e-12);
  EXPECT_NEAR(rates.ratio.value * times.ratio.value, 1, 1e-12);
  EXPECT_NEAR(rates.ratio.interval->lo * times.ratio.interval->hi, 1, 1e-12);
  EXPECT_EQ(rates.change, Change::slower);
}

TEST(Comparison, RejectsImpossibleValues) {
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(compare(Launches{{1}}, Launches{{1, bad}}, 0.02), UsageError) << bad;
  }
  EXPECT_THROW(compare(Launches{}, Launches{{1}}, 0.02), ContractError);
  EXPECT_THROW(compare(Launches{{1}}, Launches{{}}, 0.02), ContractError);
  EXPECT_THROW(compare(Launches{{1}}, Launches{{1}}, 0), ContractError);
  EXPECT_THROW(compare(Launches{{1}}, Launches{{1}}, 1), ContractError);
}

/// A comparison whose ratio is `t` errors above 1 + 2 %; t has 4 degrees of freedom.
Comparison above_threshold(double t) {
  const double d = 0.01;
  return compare(around(1, d), around(1.02 * std::exp(t * d * std::sqrt(2.0 / 3)), d), 0.02);
}

TEST(SlowerInFamily, StepsDownByHand) {
  // One-sided p values of t(4): 0.01 at 3.747, 0.0114 at 3.6, 0.02 at 3.0, 0.025 at 2.776.
  using Flags = std::vector<bool>;
  const auto judged = [](const std::vector<Comparison>& family) {
    return slower_in_family(family, 0.02);
  };
  const Comparison clear = above_threshold(3.6), alone = above_threshold(3);
  const Comparison no = above_threshold(0);
  EXPECT_EQ(judged({}), Flags());
  EXPECT_EQ(judged({alone}), Flags({true}));
  EXPECT_EQ(judged({no}), Flags({false}));
  EXPECT_EQ(judged({alone, no}), Flags({false, false}));   // 0.02 > 0.025 / 2
  EXPECT_EQ(judged({no, clear}), Flags({false, true}));    // 0.0114 < 0.025 / 2
  EXPECT_EQ(judged({alone, clear}), Flags({true, true}));  // then 0.02 < 0.025 / 1
  EXPECT_EQ(judged({no, clear, no}), Flags({false, false, false}));
  const Comparison few = compare(Launches{{1}, {1}}, Launches{{2}, {2}}, 0.02);
  EXPECT_EQ(judged({few, alone}), Flags({false, true}));  // it does not count
}

TEST(SlowerInFamily, KeepsTheVerdictsOfSingleValues) {
  const Estimate one{.value = 1, .interval = Interval{1, 1}};
  // The lower end of the interval is 1.02 at n = 1.96 sqrt(2) 1 % = 0.0277.
  for (const double ratio : {1.04, 1.06}) {
    const Estimate other{.value = ratio, .interval = Interval{ratio, ratio}};
    const Comparison found = compare(one, other, 0.02, 0.01);
    EXPECT_EQ(found.change, ratio > 1.05 ? Change::slower : Change::unclear);
    EXPECT_EQ(slower_in_family({&found, 1}, 0.02).front(), ratio > 1.05);
  }
  const Comparison equal = compare(Launches(3, {1}), Launches(3, {2}), 0.02);
  const std::vector<Comparison> family(50, equal);
  EXPECT_EQ(slower_in_family(family, 0.02), std::vector<bool>(50, true));
}

}  // namespace
}  // namespace shardstream::study
