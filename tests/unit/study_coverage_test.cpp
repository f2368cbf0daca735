// The proof of the stated intervals: simulated studies with a known law.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <utility>
#include <vector>

#include "study/laws/amdahl.hpp"
#include "study/laws/gustafson.hpp"

namespace shardstream::study {
namespace {

constexpr int coverage_draws = 2000;

/// How launches scatter: the standard deviation of the logarithm of the median of a launch's
/// repetitions, on `ranks` ranks of a study whose largest size is `largest`.
struct Scattering {
  const char* name;
  double (*deviation)(double ranks, double largest);
};

/// 1 % between launches and 1 % between five repetitions, of which a launch is the median.
constexpr Scattering even = {"even", [](double, double) { return 0.0113; }};
constexpr Scattering growing = {"0.5 % sqrt(p)",
                                [](double p, double) { return 0.005 * std::sqrt(p); }};
constexpr Scattering last = {"2.8 times on the last size",
                             [](double p, double largest) { return p < largest ? 0.01 : 0.028; }};
constexpr Scattering first = {"2.8 times on the first size",
                              [](double p, double) { return p > 1 ? 0.01 : 0.028; }};

double launch_time(double seconds, double deviation, std::mt19937_64& random) {
  return seconds * std::exp(std::normal_distribution<double>(0, deviation)(random));
}

bool holds(const Estimate& estimate, double truth) {
  return estimate.interval && estimate.interval->lo <= truth && truth <= estimate.interval->hi;
}

double half_width(const Estimate& estimate) {
  return estimate.interval ? (estimate.interval->hi - estimate.interval->lo) / 2 / estimate.value
                           : 0;
}

struct Simulated {
  int first = 0, time = 0, speedup = 0, share = 0, prediction = 0, rejected = 0;
  double of_time = 0, of_prediction = 0;  ///< mean half widths, relative
};

struct Case {
  int replicates, largest;
  double s;
};

Simulated simulate_strong(const Case& each, const Scattering& scattering, std::mt19937_64& random) {
  const auto law = [&](double p) { return each.s + (1 - each.s) / p; };
  const auto launch = [&](int p) {
    return launch_time(law(p), scattering.deviation(p, each.largest), random);
  };
  Simulated found;
  for (int draw = 0; draw < coverage_draws; ++draw) {
    std::vector<MeasuredLaunch> launches;
    for (int replicate = 0; replicate < each.replicates; ++replicate) {
      for (int p = 1; p <= each.largest; p *= 2) launches.push_back({p, launch(p), 1});
    }
    const Study study = tabulate(Mode::strong, launches);
    const auto amdahl = fit_amdahl(study);
    const auto next = amdahl->predict(2 * each.largest);
    found.first += holds(study.sizes.front().seconds, law(1));
    found.time += holds(study.sizes.back().seconds, law(each.largest));
    found.speedup += holds(study.sizes.back().speedup, 1 / law(each.largest));
    found.share += holds(amdahl->serial_share, each.s);
    found.prediction += holds(next->seconds, launch(2 * each.largest));
    found.rejected += amdahl->law.fit.verdict == FitVerdict::does_not_fit;
    found.of_time += half_width(study.sizes.back().seconds) / coverage_draws;
    found.of_prediction += half_width(next->seconds) / coverage_draws;
  }
  std::printf(
      "%d launches, 1..%d ranks, s %.2f, %s: time on 1 %.1f %%, on %d %.1f %% (+-%.2f %%), "
      "speed-up %.1f %%, s %.1f %%, launch on %d %.1f %% (+-%.2f %%), law rejected %.1f %%\n",
      each.replicates, each.largest, each.s, scattering.name, found.first * 100.0 / coverage_draws,
      each.largest, found.time * 100.0 / coverage_draws, 100 * found.of_time,
      found.speedup * 100.0 / coverage_draws, found.share * 100.0 / coverage_draws,
      2 * each.largest, found.prediction * 100.0 / coverage_draws, 100 * found.of_prediction,
      found.rejected * 100.0 / coverage_draws);
  return found;
}

void expect_nominal(const char* what, int covered) {
  EXPECT_GE(covered, coverage_draws * 92 / 100) << what;
  EXPECT_LE(covered, coverage_draws * 98 / 100) << what;
}

TEST(Coverage, OfAmdahlsIntervalsIsNominal) {
  std::mt19937_64 random(20261123);
  for (const int replicates : {3, 5}) {
    for (const int largest : {2, 4, 8}) {
      for (const double s : {0.0, 0.05, 0.25}) {
        SCOPED_TRACE(testing::Message()
                     << replicates << " launches, 1 to " << largest << ", " << s);
        const Simulated found = simulate_strong({replicates, largest, s}, even, random);
        expect_nominal("first", found.first);
        expect_nominal("time", found.time);
        expect_nominal("speed-up", found.speedup);
        expect_nominal("share", found.share);
        expect_nominal("prediction", found.prediction);
        EXPECT_LE(found.rejected, coverage_draws * 7 / 100);
      }
    }
  }
}

/// Scatter that differs between the sizes. With one variance for all of them, these intervals cover
/// 83 %, 89 % and 73 % if it grows, and 77 %, 82 % and 72 % if the largest size has more of it.
TEST(Coverage, HoldsIfTheScatterDiffersBetweenSizes) {
  std::mt19937_64 random(20261129);
  for (const Scattering& scattering : {growing, last, first}) {
    for (const Case each : {Case{3, 4, 0.05}, {3, 8, 0.05}, {3, 16, 0}, {5, 8, 0.25}}) {
      SCOPED_TRACE(testing::Message() << scattering.name << ", " << each.replicates
                                      << " launches, 1 to " << each.largest);
      const Simulated found = simulate_strong(each, scattering, random);
      for (const auto& [what, covered] :
           {std::pair("first", found.first), std::pair("time", found.time),
            std::pair("speed-up", found.speedup), std::pair("share", found.share),
            std::pair("prediction", found.prediction)}) {
        // 92 %, with the noise of 2000 draws
        EXPECT_GE(covered, coverage_draws * 91 / 100) << what;
      }
      EXPECT_LE(found.rejected, coverage_draws * 10 / 100);
    }
  }
}

/// Intervals that hold if the scatter differs are longer than those of one variance for all sizes,
/// whose half widths for these two cases are 1.46 % and 3.4 %, and 1.06 % and 2.9 %.
TEST(Coverage, CostsLittleIfTheScatterIsEven) {
  std::mt19937_64 random(20261130);
  const Simulated three = simulate_strong({3, 8, 0.05}, even, random);
  EXPECT_LT(three.of_time, 1.5 * 0.0146);
  EXPECT_LT(three.of_prediction, 1.65 * 0.034);
  const Simulated five = simulate_strong({5, 8, 0.05}, even, random);
  EXPECT_LT(five.of_time, 1.25 * 0.0106);
  EXPECT_LT(five.of_prediction, 1.4 * 0.029);
}

/// Ten times the noise on the largest size, which marks the size in most of the studies.
TEST(Coverage, OfANewLaunchOnAMarkedSize) {
  std::mt19937_64 random(20261126);
  const auto seconds = [&](int p) { return launch_time(1.0 / p, p < 8 ? 0.0113 : 0.1, random); };
  for (const int replicates : {3, 5}) {
    int marked = 0, at = 0, beyond = 0;
    for (int draw = 0; draw < coverage_draws; ++draw) {
      std::vector<MeasuredLaunch> launches;
      for (int replicate = 0; replicate < replicates; ++replicate) {
        for (const int p : {1, 2, 4, 8}) launches.push_back({p, seconds(p), 1});
      }
      const Study study = tabulate(Mode::strong, launches);
      if (!study.sizes.back().noisier) continue;
      ++marked;
      const auto law = fit_amdahl(study);
      at += holds(law->seconds_of_launch(8), seconds(8));
      beyond += holds(law->seconds_of_launch(16), seconds(16));
    }
    std::printf("%d launches, marked in %.1f %%: launch on 8 %.1f %%, on 16 %.1f %%\n", replicates,
                marked * 100.0 / coverage_draws, at * 100.0 / marked, beyond * 100.0 / marked);
    EXPECT_GT(marked, coverage_draws / 2);
    EXPECT_GE(at, marked * 93 / 100);
    EXPECT_GE(beyond, marked * 93 / 100);
  }
}

TEST(Coverage, OfGustafsonsIntervals) {
  std::mt19937_64 random(20261124);
  const auto seconds = [](int p) { return p / (p - 0.1 * (p - 1)); };
  for (const Scattering& scattering : {even, growing, last}) {
    const auto launch = [&](int p) {
      return launch_time(seconds(p), scattering.deviation(p, 8), random);
    };
    for (const int replicates : {3, 5}) {
      int share = 0, prediction = 0;
      for (int draw = 0; draw < coverage_draws; ++draw) {
        std::vector<MeasuredLaunch> launches;
        for (int replicate = 0; replicate < replicates; ++replicate) {
          for (const int p : {1, 2, 4, 8}) launches.push_back({p, launch(p), double(p)});
        }
        const auto law = fit_gustafson(tabulate(Mode::weak, launches));
        share += holds(law->serial_share, 0.1);
        prediction += holds(law->predict_efficiency(16), 1 / launch(16));
      }
      std::printf("%d launches, Gustafson, %s: s' %.1f %%, efficiency on 16 %.1f %%\n", replicates,
                  scattering.name, share * 100.0 / coverage_draws,
                  prediction * 100.0 / coverage_draws);
      EXPECT_GE(share, coverage_draws * 91 / 100);
      EXPECT_GE(prediction, coverage_draws * 91 / 100);
    }
  }
}

}  // namespace
}  // namespace shardstream::study
