// The proof of the stated intervals: simulated studies with a known law.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "study/amdahl.hpp"
#include "study/gustafson.hpp"

namespace shardstream::study {
namespace {

constexpr int draws = 2000;

/// 1 % noise between launches and 1 % between five repetitions, of which a launch is the median.
double launch_time(double seconds, std::mt19937_64& random) {
  std::normal_distribution<double> noise(0, 0.01);
  const double launch = seconds * (1 + noise(random));
  std::array<double, 5> repetitions{};
  for (double& repetition : repetitions) repetition = launch * (1 + noise(random));
  std::nth_element(repetitions.begin(), repetitions.begin() + 2, repetitions.end());
  return repetitions[2];
}

bool holds(const Estimate& estimate, double truth) {
  return estimate.interval && estimate.interval->lo <= truth && truth <= estimate.interval->hi;
}

struct Covered {
  int share = 0, speedup = 0, prediction = 0;
};

Covered simulate_strong(int largest, int replicates, double s, std::mt19937_64& random) {
  const auto law = [&](double p) { return s + (1 - s) / p; };
  Covered covered;
  for (int draw = 0; draw < draws; ++draw) {
    std::vector<Launch> launches;
    for (int replicate = 0; replicate < replicates; ++replicate) {
      for (int p = 1; p <= largest; p *= 2) launches.push_back({p, launch_time(law(p), random), 1});
    }
    const Study study = tabulate(Mode::strong, launches);
    const auto amdahl = fit_amdahl(study);
    covered.share += holds(amdahl->serial_share, s);
    covered.speedup += holds(study.sizes.back().speedup, 1 / law(largest));
    const double next = launch_time(law(2 * largest), random);
    covered.prediction += holds(amdahl->predict(2 * largest)->seconds, next);
  }
  return covered;
}

void expect_nominal(const char* what, int covered) {
  EXPECT_GE(covered, draws * 92 / 100) << what;
  EXPECT_LE(covered, draws * 98 / 100) << what;
}

TEST(Coverage, OfAmdahlsIntervalsIsNominal) {
  std::mt19937_64 random(20261123);
  for (const int replicates : {3, 5}) {
    for (const int largest : {2, 4, 8}) {
      for (const double s : {0.0, 0.05, 0.25}) {
        SCOPED_TRACE(testing::Message()
                     << replicates << " launches, 1 to " << largest << ", " << s);
        const Covered covered = simulate_strong(largest, replicates, s, random);
        std::printf(
            "%d launches, 1..%d ranks, s %.2f: s %.1f %%, speed-up %.1f %%, time at %d %.1f %%\n",
            replicates, largest, s, covered.share * 100.0 / draws, covered.speedup * 100.0 / draws,
            2 * largest, covered.prediction * 100.0 / draws);
        expect_nominal("share", covered.share);
        expect_nominal("speed-up", covered.speedup);
        expect_nominal("prediction", covered.prediction);
      }
    }
  }
}

/// Ten times the noise on the largest size. It marks the size in some of the studies only; in
/// those, bounds from the pooled noise hold a small part of the new launches.
TEST(Coverage, OfANewLaunchOnAMarkedSize) {
  std::mt19937_64 random(20261126);
  const auto seconds = [&](int p) {
    const double launch = launch_time(1.0 / p, random);
    return p < 8 ? launch : launch * std::exp(std::normal_distribution<double>(0, 0.1)(random));
  };
  for (const int replicates : {3, 5}) {
    int marked = 0, own = 0, pooled = 0;
    for (int draw = 0; draw < draws; ++draw) {
      std::vector<Launch> launches;
      for (int replicate = 0; replicate < replicates; ++replicate) {
        for (const int p : {1, 2, 4, 8}) launches.push_back({p, seconds(p), 1});
      }
      const Study study = tabulate(Mode::strong, launches);
      const Noise noise = own_noise(study, 8);
      if (noise.df == 0) continue;
      ++marked;
      const auto law = fit_amdahl(study);
      const double next = seconds(8);
      own += holds(law->seconds_of_launch(8, noise), next);
      pooled += holds(law->seconds_of_launch(8), next);
    }
    std::printf("%d launches, marked in %.1f %%: new launch %.1f %%, by pooled noise %.1f %%\n",
                replicates, marked * 100.0 / draws, own * 100.0 / marked, pooled * 100.0 / marked);
    EXPECT_GT(marked, draws / 2);
    EXPECT_GE(own, marked * 93 / 100);
    EXPECT_LT(pooled, marked / 2);
  }
}

TEST(Coverage, OfGustafsonsIntervalIsNominal) {
  std::mt19937_64 random(20261124);
  const auto seconds = [](int p) { return p / (p - 0.1 * (p - 1)); };
  for (const int replicates : {3, 5}) {
    int share = 0, prediction = 0;
    for (int draw = 0; draw < draws; ++draw) {
      std::vector<Launch> launches;
      for (int replicate = 0; replicate < replicates; ++replicate) {
        for (const int p : {1, 2, 4}) {
          launches.push_back({p, launch_time(seconds(p), random), double(p)});
        }
      }
      const auto law = fit_gustafson(tabulate(Mode::weak, launches));
      share += holds(law->serial_share, 0.1);
      prediction += holds(law->predict_efficiency(8), 1 / launch_time(seconds(8), random));
    }
    std::printf("%d launches, Gustafson: s' %.1f %%, efficiency at 8 %.1f %%\n", replicates,
                share * 100.0 / draws, prediction * 100.0 / draws);
    expect_nominal("s'", share);
    expect_nominal("prediction", prediction);
  }
}

}  // namespace
}  // namespace shardstream::study
