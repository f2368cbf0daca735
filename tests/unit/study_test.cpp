#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "study/laws/amdahl.hpp"
#include "study/laws/extrapolation.hpp"
#include "study/laws/gustafson.hpp"
#include "study/laws/prediction.hpp"
#include "study/laws/scalability.hpp"
#include "study/statistics/drift.hpp"
#include "study/statistics/outliers.hpp"

namespace shardstream::study {
namespace {

const std::vector<double> pair = {0.99, 1 / 0.99};  // geometric mean 1

TEST(Launches, InvalidTimesAreExcludedWithAReason) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<MeasuredLaunch> launches = {
      {1, 0, 1}, {1, std::nan(""), 1}, {1, inf, 1}, {1, -1, 1}, {0, 1, 1}, {1, 1, 0}, {2, 0.5, 1}};
  EXPECT_EQ(std::ranges::count_if(launches,
                                  [](const MeasuredLaunch& each) { return !why_invalid(each); }),
            1);
  EXPECT_NE(why_invalid(launches[3]).value_or("").find("-1"), std::string::npos);
  EXPECT_THROW(tabulate(Mode::strong, launches), UsageError);
}

TEST(Sizes, ExactSpeedupEfficiencyAndKarpFlatt) {
  // s = 1/5: T = 10, 6, 4; S = 1, 5/3, 5/2.
  const Study study = tabulate(Mode::strong, {{4, 4, 1}, {1, 10, 1}, {2, 6, 1}});
  EXPECT_DOUBLE_EQ(study.sizes[1].speedup.value, 5.0 / 3);
  EXPECT_NEAR(study.sizes[2].efficiency.value, 0.625, 1e-14);
  EXPECT_NEAR(study.sizes[2].karp_flatt->value, 0.2, 1e-14);
  EXPECT_FALSE(study.sizes[2].speedup.interval);  // one launch a size
  EXPECT_FALSE(study.sizes[2].seconds.interval);
}

/// The Karp-Flatt metric at each size above the smallest one.
std::vector<double> karp_flatt_of(const std::vector<MeasuredLaunch>& launches) {
  std::vector<double> metric;
  for (const Size& size : tabulate(Mode::strong, launches).sizes) {
    if (size.karp_flatt) metric.push_back(size.karp_flatt->value);
  }
  return metric;
}

// These are the claims in the caption of the figure.
TEST(Sizes, KarpFlattIsFlatForASerialPartAndRisesWithOverhead) {
  // T = 2 + 8 / p from two ranks on: the serial share of the run on two ranks is 1/3.
  const auto serial = karp_flatt_of({{2, 6, 1}, {4, 4, 1}, {8, 3, 1}});
  ASSERT_EQ(serial.size(), 2);
  for (const double each : serial) EXPECT_NEAR(each, 1.0 / 3, 1e-14);
  const auto overhead = karp_flatt_of({{1, 10, 1}, {2, 6 + 0.5, 1}, {4, 4 + 1.0, 1}});
  ASSERT_EQ(overhead.size(), 2);
  EXPECT_NEAR(overhead[0], 0.3, 1e-14);
  EXPECT_NEAR(overhead[1], 1.0 / 3, 1e-14);
  // T = 10, 7, 3: on two ranks far from linear, on four less so.
  const auto faster = karp_flatt_of({{1, 10, 1}, {2, 7, 1}, {4, 3, 1}});
  ASSERT_EQ(faster.size(), 2);
  EXPECT_NEAR(faster[0], 0.4, 1e-14);
  EXPECT_NEAR(faster[1], 0.2 / 3, 1e-14);
  const Study weak = tabulate(Mode::weak, {{1, 1, 1}, {2, 1, 2}});
  EXPECT_FALSE(weak.sizes[1].karp_flatt);
}

TEST(Sizes, PooledIntervalByHand) {
  std::vector<MeasuredLaunch> launches;
  for (const int p : {2, 4}) {
    for (const double noise : pair) launches.push_back({p, noise * 8 / p, 1});
  }
  const Study study = tabulate(Mode::strong, launches, Trend::none);
  EXPECT_EQ(study.anchor, 2);
  EXPECT_EQ(study.scatter.pooled().df, 2);
  // Each size: log times +-d, variance 2 d^2, as fitted to both; the log ratio's error is
  // sqrt(2 d^2), with the two degrees of freedom of the study: t(2) is 4.3027.
  const double d = -std::log(0.99);
  EXPECT_NEAR(study.sizes[1].speedup.value, 4, 1e-12);
  EXPECT_NEAR(study.sizes[1].speedup.interval->hi, 4 * std::exp(4.30265273 * std::sqrt(2) * d),
              1e-7);
}

TEST(Sizes, ANoisierSizeIsMarked) {
  std::vector<MeasuredLaunch> launches;
  for (const int p : {1, 2, 4, 8}) {
    for (const double z : {-1, 0, 1}) {
      launches.push_back({p, std::exp(z * (p == 4 ? 0.2 : 0.01)) / p, 1});
    }
  }
  const Study study = tabulate(Mode::strong, launches);
  for (const Size& size : study.sizes) EXPECT_EQ(size.noisier, size.ranks == 4) << size.ranks;
  EXPECT_NEAR(std::sqrt(study.scatter.pooled().variance), 0.01, 1e-9);
  EXPECT_GT(study.sizes[2].speedup.interval->hi, 4 * 1.2);
  EXPECT_LT(study.sizes[3].speedup.interval->hi, 8 * 1.03);
}

TEST(Sizes, DifferentWorkIsRejected) {
  EXPECT_THROW(tabulate(Mode::strong, {{1, 1, 1}, {2, 1, 2}}), UsageError);
  EXPECT_THROW(tabulate(Mode::weak, {{1, 1, 1}, {1, 1, 2}}), UsageError);
}

TEST(Sizes, SuperlinearOnesAreFoundAndNotClamped) {
  std::vector<MeasuredLaunch> launches;
  for (const double noise : pair) {
    for (const auto& [p, t] : {std::pair{1, 1.0}, {2, 0.3}, {4, 0.25}}) {
      launches.push_back({p, t * noise, 1});
    }
  }
  const Study study = tabulate(Mode::strong, launches);
  EXPECT_EQ(superlinear(study), std::vector<int>{2});
  EXPECT_LT(fit_amdahl(tabulate(Mode::strong, {{1, 1, 1}, {2, 0.4, 1}}))->serial_share.value, 0);
}

TEST(Amdahl, ExactLawIsFound) {
  const auto amdahl = fit_amdahl(tabulate(Mode::strong, {{1, 10, 1}, {2, 6, 1}, {4, 4, 1}}));
  EXPECT_NEAR(amdahl->serial_seconds.value, 2, 1e-12);
  EXPECT_NEAR(amdahl->parallel_seconds.value, 8, 1e-12);
  EXPECT_NEAR(amdahl->serial_share.value, 0.2, 1e-12);
  EXPECT_NEAR(amdahl->predict(8)->seconds.value, 3, 1e-12);
  EXPECT_FALSE(amdahl->serial_share.interval);
  EXPECT_EQ(amdahl->law.fit.verdict, FitVerdict::untested);
}

TEST(Amdahl, EqualLaunchesOfOneSizeDoNotSpoilTheFit) {
  const std::vector<MeasuredLaunch> launches = {
      {1, 0.999, 1}, {1, 1.001, 1}, {2, 0.6, 1}, {2, 0.6, 1}};
  EXPECT_NEAR(fit_amdahl(tabulate(Mode::strong, launches))->serial_share.value, 0.2, 1e-6);
}

TEST(Amdahl, TellsWhetherTheLawFits) {
  for (const double overhead : {0.0, 0.05}) {
    std::vector<MeasuredLaunch> launches;
    for (const int p : {1, 2, 4, 8}) {
      for (const double noise : pair) launches.push_back({p, noise * (1.0 / p + overhead * p), 1});
    }
    const auto amdahl = fit_amdahl(tabulate(Mode::strong, launches));
    EXPECT_EQ(amdahl->law.fit.verdict, overhead > 0 ? FitVerdict::does_not_fit : FitVerdict::fits);
  }
}

/// Three launches on each size, which scatter by 1 %, and by 20 % on 4 ranks.
Study noisy_on_four(Mode mode) {
  std::vector<MeasuredLaunch> launches;
  for (const int p : {1, 2, 4, 8}) {
    for (const double z : {-1, 0, 1}) {
      const double seconds = std::exp(z * (p == 4 ? 0.2 : 0.01));
      launches.push_back(mode == Mode::strong ? MeasuredLaunch{p, seconds / p, 1}
                                              : MeasuredLaunch{p, seconds, static_cast<double>(p)});
    }
  }
  return tabulate(mode, launches);
}

TEST(Laws, ANewLaunchOnAMarkedSizeScattersLikeIt) {
  const double t = 4.302652729911275;  // Student's t for 2 degrees of freedom
  const auto half = [](const Estimate& estimate) {
    return (estimate.interval->hi - estimate.interval->lo) / 2;
  };
  const Study strong = noisy_on_four(Mode::strong);
  const auto amdahl = fit_amdahl(strong);
  const Estimate quiet = amdahl->seconds_of_launch(2), marked = amdahl->seconds_of_launch(4);
  EXPECT_LT(half(quiet), 0.06 * quiet.value);
  EXPECT_NEAR(half(marked) / (t * 0.2 * marked.value), 1, 0.01);
  EXPECT_LT(marked.interval->lo, strong.sizes[2].seconds.interval->lo);
  EXPECT_GT(marked.interval->hi, strong.sizes[2].seconds.interval->hi);
  EXPECT_LT(half(amdahl->seconds_of_launch(16)), half(marked) / 4);  // as on 8 ranks

  const auto gustafson = fit_gustafson(noisy_on_four(Mode::weak));
  const Estimate efficiency = gustafson->predict_efficiency(4);
  EXPECT_NEAR(half(efficiency) / (t * 0.2 * efficiency.value), 1, 0.05);
  EXPECT_LT(half(gustafson->predict_efficiency(16)), half(efficiency));
}

TEST(Laws, ALaunchBeyondALargestSizeThatIsMarkedScattersLikeIt) {
  std::vector<MeasuredLaunch> launches;
  for (const int p : {1, 2, 4}) {
    for (const double z : {-1, 0, 1}) {
      launches.push_back({p, std::exp(z * (p == 4 ? 0.2 : 0.01)) / p, 1});
    }
  }
  const auto law = fit_amdahl(tabulate(Mode::strong, launches));
  const auto relative = [&](double p) {
    const Estimate seconds = law->seconds_of_launch(p);
    return (seconds.interval->hi - seconds.interval->lo) / 2 / seconds.value;
  };
  EXPECT_GT(relative(8), 0.8);  // 4.3 times 0.2
  EXPECT_GT(relative(8) / relative(4), 0.95);
  EXPECT_LT(relative(8) / relative(4), 1.5);  // the scatter may grow
  EXPECT_GT(relative(3), relative(2));
  EXPECT_LT(relative(3), relative(4));
}

/// Three launches on each size of T = 2 + 8 / p, from four ranks on: 4, 3 and 2.5 s.
TEST(Laws, ReferToTheSmallestSize) {
  std::vector<MeasuredLaunch> launches;
  for (const int p : {4, 8, 16}) {
    for (const double z : {-1, 0, 1})
      launches.push_back({p, std::exp(z * 1e-4) * (2 + 8.0 / p), 1});
  }
  const Study strong = tabulate(Mode::strong, launches);
  const auto amdahl = fit_amdahl(strong);
  EXPECT_NEAR(strong.sizes[2].speedup.value, 4 * 4 / 2.5, 1e-6);
  const auto measured = amdahl->predict(16), next = amdahl->predict(32);
  EXPECT_NEAR(measured->speedup.value, strong.sizes[2].speedup.value, 1e-5);
  EXPECT_NEAR(next->speedup.value, 4 * 4 / 2.25, 1e-5);
  EXPECT_NEAR(next->efficiency.value, 4 * 4 / 2.25 / 32, 1e-6);
  EXPECT_NEAR(amdahl->serial_share.value, 0.5, 1e-6);
  for (const int size : {1, 2}) EXPECT_NEAR(strong.sizes[size].karp_flatt->value, 0.5, 1e-6);

  // The rate of four ranks is 1; s' = 1/4 of the run on more ranks.
  std::vector<MeasuredLaunch> weak;
  for (const double q : {1, 2, 4}) {
    const double work = q * (q == 2 ? 1.5 : 1);  // whatever the work, the rate counts
    weak.push_back({static_cast<int>(4 * q), work / (q - 0.25 * (q - 1)), work});
  }
  const Study scaled = tabulate(Mode::weak, weak);
  const auto gustafson = fit_gustafson(scaled);
  EXPECT_NEAR(gustafson->serial_share.value, 0.25, 1e-12);
  EXPECT_NEAR(gustafson->predict_efficiency(16).value, scaled.sizes[2].efficiency.value, 1e-12);
  EXPECT_NEAR(gustafson->predict_efficiency(32).value, 1 - 0.25 * 7 / 8, 1e-12);
}

TEST(Extrapolation, ARejectedLawHasNone) {
  for (const double overhead : {0.0, 0.05}) {
    std::vector<MeasuredLaunch> launches, weak;
    for (const int p : {1, 2, 4, 8}) {
      for (const double noise : pair) {
        launches.push_back({p, noise * (0.2 + 0.8 / p + overhead * p), 1});
        weak.push_back({p, noise * (1 + 10 * overhead * (p - 1)), static_cast<double>(p)});
      }
    }
    const auto next = extrapolate(*fit_amdahl(tabulate(Mode::strong, launches)), 16);
    const auto rate = extrapolate(*fit_gustafson(tabulate(Mode::weak, weak)), 16);
    EXPECT_EQ(next.value.has_value(), overhead == 0) << next.why_not;
    EXPECT_EQ(rate.value.has_value(), overhead == 0) << rate.why_not;
    EXPECT_EQ(next.why_not.empty(), overhead == 0);
    if (overhead == 0) {
      EXPECT_NEAR(next->max_speedup.value(), 5, 1e-3);
    }
  }
}

TEST(Extrapolation, EndsOfIntervalsArePossible) {
  for (const double serial : {0.0, 0.1}) {
    std::vector<MeasuredLaunch> launches, weak;
    for (const int p : {1, 2, 4}) {
      for (const double z : {-0.2, 0.2}) {
        launches.push_back({p, std::exp(z) * (serial + (1 - serial) / p), 1});
        weak.push_back({p, std::exp(z) * p / (p - serial * (p - 1)), static_cast<double>(p)});
      }
    }
    const auto next = extrapolate(*fit_amdahl(tabulate(Mode::strong, launches)), 8);
    const auto rate = extrapolate(*fit_gustafson(tabulate(Mode::weak, weak)), 8);
    for (const Estimate& each : {next->efficiency, rate->efficiency}) {
      EXPECT_GE(each.interval->lo, 0);
      EXPECT_LE(each.value, 1);
      EXPECT_EQ(each.interval->hi, 1);
    }
    EXPECT_GE(next->seconds->interval->lo, 0);
    EXPECT_GE(next->speedup->interval->lo, 0);
    EXPECT_FALSE(next->max_speedup);  // the serial part may be zero
  }
}

TEST(Extrapolation, AnImpossibleSerialShareHasNone) {
  // Superlinear beyond the noise, with an interval that covers 0..1, and with a single launch each.
  for (const auto& launches :
       {std::vector<MeasuredLaunch>{{1, 1, 1}, {1, 1.01, 1}, {2, 0.4, 1}, {2, 0.41, 1}},
        {{1, 1, 1}, {1, 1.6, 1}, {2, 0.5, 1}, {2, 0.7, 1}},
        {{1, 1, 1}, {2, 0.4, 1}},
        {{1, 1, 1}, {2, 1.2, 1}}}) {
    const auto next = extrapolate(*fit_amdahl(tabulate(Mode::strong, launches)), 4);
    EXPECT_FALSE(next);
    EXPECT_NE(next.why_not.find("between 0 and 1"), std::string::npos) << next.why_not;
  }
  // Slightly superlinear within the noise: it may be ideal.
  const auto ideal = extrapolate(
      *fit_amdahl(tabulate(Mode::strong, {{1, 1, 1}, {1, 1.1, 1}, {2, 0.5, 1}, {2, 0.54, 1}})), 4);
  EXPECT_EQ(ideal->efficiency.value, 1);
  EXPECT_EQ(ideal->speedup->value, 4);
  EXPECT_NEAR(ideal->seconds->value, std::sqrt(1.1) / 4, 1e-12);
  EXPECT_TRUE(extrapolate(*fit_amdahl(tabulate(Mode::strong, {{1, 1, 1}, {3, 0.333, 1}})), 6));
  // The time grows faster than the work.
  const auto none = extrapolate(*fit_gustafson(tabulate(Mode::weak, {{1, 1, 1}, {2, 5, 2}})), 4);
  EXPECT_FALSE(none);
  EXPECT_FALSE(none.why_not.empty());
}

TEST(Extrapolation, AShareAboveOneCountsAsOne) {
  // Two ranks are slower than one, which scatter explains: more ranks change nothing.
  for (const int p0 : {1, 2}) {
    const Study study =
        tabulate(Mode::strong, {{p0, 1, 1}, {p0, 1.1, 1}, {2 * p0, 1.05, 1}, {2 * p0, 1.16, 1}});
    const Amdahl law = *fit_amdahl(study);
    ASSERT_GT(law.serial_share.value, 1);
    const auto next = extrapolate(law, 4 * p0);
    ASSERT_TRUE(next) << next.why_not;
    EXPECT_EQ(next->speedup->value, p0);
    EXPECT_EQ(next->efficiency.value, 0.25);
    EXPECT_EQ(next->seconds->value, law.reference_seconds.value);
    EXPECT_EQ(next->max_speedup, p0);
    for (const Estimate& each : {*next->speedup, next->efficiency, *next->seconds}) {
      EXPECT_LE(each.interval->lo, each.value);
      EXPECT_GE(each.interval->hi, each.value);
    }
  }
  const auto weak = extrapolate(
      *fit_gustafson(tabulate(Mode::weak, {{1, 1, 1}, {1, 1.1, 1}, {2, 2.1, 2}, {2, 2.3, 2}})), 4);
  ASSERT_TRUE(weak) << weak.why_not;
  EXPECT_EQ(weak->efficiency.value, 0.25);
}

TEST(Extrapolation, NoMaximumIsBelowTheSmallestSize) {
  for (const double serial : {0.9, 0.99, 1.0}) {
    std::vector<MeasuredLaunch> launches;
    for (const int p : {2, 4, 8}) {
      // The measured time of the smallest size lies below the law.
      for (const double noise : pair)
        launches.push_back({p, noise * (serial + 2 * (1 - serial) / p) * (p == 2 ? 0.98 : 1), 1});
    }
    const auto next = extrapolate(*fit_amdahl(tabulate(Mode::strong, launches)), 16);
    ASSERT_TRUE(next) << next.why_not;
    ASSERT_TRUE(next->max_speedup);
    EXPECT_GE(*next->max_speedup, 2) << serial;
    EXPECT_GE(*next->max_speedup, next->speedup->value * (1 - 1e-12)) << serial;
  }
}

TEST(Laws, AMeasuredTimeOfTheSmallestSizeIsTheReference) {
  // 5 % above the law on two ranks, which does not fit then.
  const Study study = tabulate(Mode::strong, {{2, 1.05, 1}, {4, 0.5, 1}, {8, 0.25, 1}});
  const auto next = fit_amdahl(study)->predict(16);
  EXPECT_NEAR(next->speedup.value * next->seconds.value, 2 * 1.05, 1e-12);
}

TEST(Laws, AnOutlierDoesNotMakeALawFit) {
  std::vector<MeasuredLaunch> launches;
  for (const int p : {1, 2, 4}) {
    for (const double z : {-1, 0, 1}) {
      const bool is_outlier = p == 4 && z == 1;
      launches.push_back({p, std::exp(z * 0.02) / p * (is_outlier ? 3 : 1), 1});
    }
  }
  const Study study = tabulate(Mode::strong, launches);
  const Fit fit = fit_amdahl(study)->law.fit;
  EXPECT_GT(fit.p_value, test_level);
  EXPECT_EQ(fit.verdict, FitVerdict::unclear);
  const std::vector<Outlier> outliers = find_outliers(study);
  ASSERT_EQ(outliers.size(), 1);
  EXPECT_EQ(outliers[0].launch, 8);
  EXPECT_NEAR(outliers[0].factor, 3, 0.1);
}

TEST(Outliers, OrdinaryScatterHasNone) {
  std::vector<MeasuredLaunch> launches;
  for (const int p : {1, 2, 4}) {
    for (const double z : {-1.0, 0.1, 1.0}) launches.push_back({p, std::exp(z * 0.3) / p, 1});
  }
  launches.push_back({8, 1, 1});  // alone
  EXPECT_TRUE(find_outliers(tabulate(Mode::strong, launches)).empty());
  // Two launches of one size: the slower one is named.
  const auto two = find_outliers(tabulate(Mode::strong, {{1, 1, 1}, {1, 2, 1}}));
  ASSERT_EQ(two.size(), 1);
  EXPECT_EQ(two[0].launch, 1);
  // Fast ones, too
  const auto fast = find_outliers(tabulate(Mode::strong, {{1, 1, 1}, {1, 0.3, 1}, {1, 1.01, 1}}));
  ASSERT_EQ(fast.size(), 1);
  EXPECT_LT(fast[0].factor, 0.31);
}

TEST(Laws, OneSizeGivesAReason) {
  const Study strong = tabulate(Mode::strong, {{4, 1, 1}}),
              weak = tabulate(Mode::weak, {{4, 1, 1}});
  EXPECT_FALSE(fit_amdahl(strong).why_not.empty());
  EXPECT_FALSE(fit_gustafson(weak).why_not.empty());
  EXPECT_FALSE(fit_scalability(strong).why_not.empty());
  EXPECT_FALSE(find_drift(strong).why_not.empty());
}

TEST(Gustafson, ExactLawIsFound) {
  // S = p - (p-1)/4 = 1, 7/4, 13/4
  const Study study = tabulate(Mode::weak, {{1, 1, 1}, {2, 8.0 / 7, 2}, {4, 16.0 / 13, 4}});
  EXPECT_NEAR(fit_gustafson(study)->serial_share.value, 0.25, 1e-14);
  EXPECT_NEAR(fit_gustafson(study)->predict_efficiency(8).value, 1 - 0.25 * 7 / 8, 1e-14);
  EXPECT_DOUBLE_EQ(share_of_reference(0.5, 3), 0.25);
}

TEST(Scalability, ExactLawIsFoundFromSixSizes) {
  std::vector<MeasuredLaunch> launches;
  for (const double p : {1, 2, 4, 8, 16, 32}) {
    const double rate = 3 * p / (1 + 0.04 * (p - 1) + 0.0015 * p * (p - 1));
    launches.push_back({static_cast<int>(p), 1 / rate, 1});
  }
  const auto law = fit_scalability(tabulate(Mode::strong, launches));
  EXPECT_NEAR(law->rate_of_one.value, 3, 1e-10);
  EXPECT_NEAR(law->contention.value, 0.04, 1e-11);
  EXPECT_NEAR(law->coherency.value, 0.0015, 1e-12);
  EXPECT_NEAR(*law->peak_ranks, std::sqrt(0.96 / 0.0015), 1e-6);
}

TEST(Drift, IsFoundInStartOrder) {
  std::vector<MeasuredLaunch> launches;
  for (int i = 0; i < 12; ++i) {
    const int p = 1 << (i % 3);
    launches.push_back({p, std::exp(0.002 * i + (i % 2 ? 1e-4 : -1e-4)) / p, 1});
  }
  const auto drift = find_drift(tabulate(Mode::strong, launches));
  EXPECT_NEAR(drift->per_launch.value, 0.002, 1e-4);
  EXPECT_TRUE(drift->significant);
}

TEST(Predict, AmdahlAndGustafson) {
  const auto sizes = predict(0.25, std::vector{1, 4});
  EXPECT_DOUBLE_EQ(sizes[0].amdahl, 1);
  EXPECT_DOUBLE_EQ(sizes[1].amdahl, 1 / 0.4375);
  EXPECT_DOUBLE_EQ(sizes[1].gustafson, 3.25);
  EXPECT_THROW(predict(1.5, std::vector{1}), UsageError);
  EXPECT_THROW(predict(std::nan(""), std::vector{1}), UsageError);
  EXPECT_THROW(predict(0.5, std::vector{0}), UsageError);
}

}  // namespace
}  // namespace shardstream::study
