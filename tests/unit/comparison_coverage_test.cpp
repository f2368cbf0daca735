// The proof of the stated verdicts: simulated pairs with a known difference.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "study/comparison.hpp"

namespace shardstream::study {
namespace {

constexpr int draws = 2000;
constexpr double threshold = 0.02;

/// Noise between launches, and 1 % between the repetitions of a launch.
struct Noises {
  double between = 0.01;
  double autocorrelation = 0;  ///< of the repetitions of a launch
};

std::vector<Repetitions> launches(std::size_t number, double seconds, std::size_t repetitions,
                                  std::mt19937_64& random, const Noises& noises = {}) {
  std::normal_distribution<double> normal(0, 1);
  std::vector<Repetitions> all(number, Repetitions(repetitions));
  const double fresh = std::sqrt(1 - noises.autocorrelation * noises.autocorrelation);
  for (Repetitions& launch : all) {
    const double mean = seconds * std::exp(noises.between * normal(random));
    double state = normal(random);
    for (double& each : launch) {
      each = mean * (1 + 0.01 * state);
      state = noises.autocorrelation * state + fresh * normal(random);
    }
  }
  return all;
}

struct Found {
  std::array<int, 4> count{};  ///< of each verdict
  int covered = 0;             ///< intervals that contain the true ratio

  double share(Change change) const { return double(count[std::size_t(change)]) / draws; }
  double coverage() const { return double(covered) / draws; }
};

Found simulate(std::size_t number, double ratio, std::mt19937_64& random) {
  Found found;
  for (int draw = 0; draw < draws; ++draw) {
    const auto before = launches(number, 1, 10, random);
    const Comparison each = compare(before, launches(number, ratio, 10, random), threshold);
    ++found.count[std::size_t(each.change)];
    found.covered += each.ratio.interval->lo <= ratio && ratio <= each.ratio.interval->hi;
  }
  std::printf(
      "%zu launches a side, ratio %.2f: slower %.1f %%, same %.1f %%, faster %.1f %%, "
      "unclear %.1f %%, interval covers %.1f %%\n",
      number, ratio, 100 * found.share(Change::slower), 100 * found.share(Change::same),
      100 * found.share(Change::faster), 100 * found.share(Change::unclear),
      100 * found.coverage());
  return found;
}

TEST(ComparisonCoverage, WithoutADifferenceSlowerIsRare) {
  std::mt19937_64 random(20261125);
  for (const std::size_t number : {2U, 3U, 5U, 10U}) {
    const Found found = simulate(number, 1, random);
    EXPECT_LE(found.share(Change::slower), 0.025) << number;
    EXPECT_LE(found.share(Change::faster), 0.025) << number;
    EXPECT_GE(found.coverage(), 0.92) << number;
    EXPECT_LE(found.coverage(), 0.98) << number;
    if (number == 10) {
      EXPECT_GE(found.share(Change::same), 0.90);
    }
  }
}

TEST(ComparisonCoverage, DifferencesAreFound) {
  std::mt19937_64 random(20261126);
  EXPECT_GE(simulate(3, 1.08, random).share(Change::slower), 0.95);
  EXPECT_GE(simulate(3, 1.05, random).share(Change::slower), 0.60);
  EXPECT_GE(simulate(5, 1.05, random).share(Change::slower), 0.93);
  EXPECT_GE(simulate(3, 1 / 1.08, random).share(Change::faster), 0.95);
}

TEST(ComparisonCoverage, AChangeAtTheThresholdIsNotCalledSlower) {
  std::mt19937_64 random(20261127);
  for (const std::size_t number : {3U, 10U}) {
    // The interval lies above the truth in 2.5 % of all cases, here with the noise of 2000 draws.
    EXPECT_LE(simulate(number, 1 + threshold, random).share(Change::slower), 0.035) << number;
  }
}

TEST(ComparisonCoverage, AFamilyAtTheThresholdIsRarelyCalledSlower) {
  std::mt19937_64 random(20261130);
  int alone = 0, together = 0;
  for (int draw = 0; draw < draws; ++draw) {
    std::vector<Comparison> family;
    for (int i = 0; i < 20; ++i) {
      family.push_back(
          compare(launches(5, 1, 1, random), launches(5, 1 + threshold, 1, random), threshold));
    }
    const auto is_slower = [](const Comparison& each) { return each.change == Change::slower; };
    alone += std::ranges::any_of(family, is_slower) ? 1 : 0;
    together += std::ranges::count(slower_in_family(family, threshold), true) > 0 ? 1 : 0;
  }
  std::printf("20 cases: one is slower alone in %.1f %%, in the family in %.1f %%\n",
              100. * alone / draws, 100. * together / draws);
  EXPECT_GE(alone, 0.2 * draws);  // the simulation can find the error that Holm's method avoids
  EXPECT_LE(together, 0.035 * draws);
}

struct Sides {
  std::size_t before, after;
};

/// 3 % between launches and correlated repetitions, with the default of --launch-noise.
Found simulate_noisy(const Sides& sides, double ratio, std::mt19937_64& random) {
  const Noises noises{.between = 0.03, .autocorrelation = 0.6};
  Found found;
  for (int draw = 0; draw < draws; ++draw) {
    const auto before = launches(sides.before, 1, 10, random, noises);
    const auto after = launches(sides.after, ratio, 10, random, noises);
    const Comparison each = compare(before, after, threshold);
    ++found.count[std::size_t(each.change)];
    found.covered += each.ratio.interval->lo <= ratio && ratio <= each.ratio.interval->hi;
  }
  std::printf(
      "%zu and %zu launches, 3 %% noise, ratio %.2f: slower %.1f %%, faster %.1f %%, "
      "interval covers %.1f %%\n",
      sides.before, sides.after, ratio, 100 * found.share(Change::slower),
      100 * found.share(Change::faster), 100 * found.coverage());
  return found;
}

TEST(ComparisonCoverage, FalseAlarmsAreRareWithNoisyLaunches) {
  std::mt19937_64 random(20261129);
  for (const Sides sides : {Sides{1, 1}, {1, 3}, {3, 1}, {3, 3}, {3, 5}, {5, 3}, {2, 10}}) {
    const Found found = simulate_noisy(sides, 1, random);
    EXPECT_LE(found.share(Change::slower), 0.025) << sides.before << sides.after;
    EXPECT_LE(found.share(Change::slower) + found.share(Change::faster), 0.05);
    EXPECT_GE(found.coverage(), 0.92) << sides.before << sides.after;
  }
}

TEST(ComparisonCoverage, LargeDifferencesOfNoisyLaunchesAreFound) {
  std::mt19937_64 random(20261130);
  EXPECT_GE(simulate_noisy({1, 1}, 1.3, random).share(Change::slower), 0.95);
  EXPECT_GE(simulate_noisy({3, 3}, 1.2, random).share(Change::slower), 0.90);
  EXPECT_GE(simulate_noisy({3, 5}, 1.15, random).share(Change::slower), 0.85);
}

/// The truth is the ratio of the two medians without noise, since no noise between launches is
/// assumed.
TEST(ComparisonCoverage, OneLaunchASideCoversItsOwnRatio) {
  std::mt19937_64 random(20261128);
  for (const double autocorrelation : {0.0, 0.6}) {
    for (const std::size_t repetitions : {6U, 10U, 30U}) {
      int covered = 0;
      for (int draw = 0; draw < draws; ++draw) {
        const Noises noises{.between = 0, .autocorrelation = autocorrelation};
        const auto sides = launches(2, 1, repetitions, random, noises);
        const auto ratio = compare({&sides[0], 1}, {&sides[1], 1}, threshold, 0).ratio;
        covered += ratio.interval->lo <= 1 && 1 <= ratio.interval->hi;
      }
      std::printf(
          "one launch a side, %zu repetitions, autocorrelation %.1f: interval covers %.1f %%\n",
          repetitions, autocorrelation, covered * 100.0 / draws);
      EXPECT_GE(covered, draws * (autocorrelation > 0 ? 90 : 94) / 100) << repetitions;
    }
  }
}

}  // namespace
}  // namespace shardstream::study
