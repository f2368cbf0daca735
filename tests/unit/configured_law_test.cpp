// The configured law of a report, and whether intervals of fitted shares hold it despite noise.
#include "report/configured_law.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "core/statistics.hpp"
#include "study/laws/amdahl.hpp"
#include "workloads/model/law.hpp"

namespace shardstream::report {
namespace {

using workloads::model::Law;

/// A run on each number of ranks, as `model` describes itself. `measured` becomes their study.
std::vector<RunFile> runs_of(const Law& law, study::Mode mode, const std::vector<int>& sizes,
                             study::Study& measured) {
  std::vector<RunFile> runs;
  std::vector<study::MeasuredLaunch> launches;
  for (const int ranks : sizes) {
    const double factor = static_cast<double>(ranks) / sizes.front();
    const Law here = mode == study::Mode::weak ? scaled(law, factor) : law;
    const double seconds = predict(here, static_cast<std::uint64_t>(ranks)).total();
    RunFile run;
    run.size.ranks = static_cast<std::uint64_t>(ranks);
    run.metrics["predicted"] = {.number = seconds, .unit = "s"};
    run.metrics["serial_configured"] = {.number = here.serial};
    runs.push_back(run);
    launches.push_back({ranks, seconds, counted_work(here)});
  }
  measured = study::tabulate(mode, launches);
  return runs;
}

std::optional<ConfiguredLaw> configured(const Law& law, study::Mode mode,
                                        const std::vector<int>& sizes) {
  study::Study measured;
  const std::vector<RunFile> runs = runs_of(law, mode, sizes, measured);
  return configured_law(runs, measured);
}

/// On 2 ranks, 0.1 s of the 0.55 s are serial, while s' is the same for any smallest size: the work
/// 0.1 + 0.9 q takes the same time on q times as many ranks.
TEST(ConfiguredLaw, RefersToTheSmallestSize) {
  const Law law{.serial = 0.1};
  const auto strong = configured(law, study::Mode::strong, {2, 4, 8});
  const auto weak = configured(law, study::Mode::weak, {2, 4, 8});
  EXPECT_NEAR(strong->serial_share, 0.1 / 0.55, 1e-12);
  EXPECT_NEAR(strong->expected_share, 0.1 / 0.55, 1e-12);
  EXPECT_NEAR(strong->expected.sizes[2].speedup.value, 2 * 0.55 / (0.1 + 0.9 / 8), 1e-12);
  EXPECT_NEAR(weak->serial_share, 0.1, 1e-12);
  EXPECT_NEAR(weak->expected_share, 0.1, 1e-12);
}

/// T(1) = 1 and T(2) = 0.2 + 0.4 m have the share 2 T(2) - 1. With the imbalance 0.5, m is 1.5.
TEST(ConfiguredLaw, KnowsWhatLongerTimesMakeOfTheShare) {
  const auto law = configured({.serial = 0.2, .imbalance = 0.5}, study::Mode::strong, {1, 2});
  EXPECT_NEAR(law->serial_share, 0.2, 1e-12);
  EXPECT_NEAR(law->expected_share, 2 * (0.2 + 0.4 * 1.5) - 1, 1e-12);
}

TEST(ConfiguredLaw, NeedsAllRunsAndTwoSizes) {
  study::Study measured;
  std::vector<RunFile> runs = runs_of({}, study::Mode::strong, {1, 2}, measured);
  EXPECT_TRUE(configured_law(runs, measured));
  runs.back().metrics.erase("serial_configured");
  EXPECT_FALSE(configured_law(runs, measured));
  EXPECT_FALSE(configured({}, study::Mode::strong, {4}));
}

/// The median over repetitions of a launch.
double launch_seconds(const Law& law, const workloads::model::Draws& draws, std::uint64_t ranks) {
  std::vector<double> seconds;
  for (std::uint64_t repetition = 0; repetition < 5; ++repetition) {
    std::int64_t slowest = 0;
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
      slowest = std::max(slowest, parts_of(law, draws, rank, ranks, repetition).parallel);
    }
    seconds.push_back(law.serial * law.work + 1e-9 * static_cast<double>(slowest));
  }
  return median(seconds);
}

/// Studies of three launches on 1, 2, 4 and 8 ranks with 10 % noise. If all launches repeated the
/// same draws, the intervals would be too short.
TEST(ConfiguredLaw, IsInsideTheIntervalsOfNoisyStudies) {
  const Law law{.serial = 0.2, .noise = 0.1};
  constexpr int studies = 1000;
  const double expected = configured(law, study::Mode::strong, {1, 2, 4, 8})->expected_share;
  int holds = 0;
  for (int seed = 0; seed < studies; ++seed) {
    std::vector<study::MeasuredLaunch> launches;
    for (std::uint64_t replicate = 1; replicate <= 3; ++replicate) {
      for (const int ranks : {1, 2, 4, 8}) {
        launches.push_back({ranks,
                            launch_seconds(law, {static_cast<std::uint64_t>(seed), replicate},
                                           static_cast<std::uint64_t>(ranks)),
                            1});
      }
    }
    const auto share =
        study::fit_amdahl(study::tabulate(study::Mode::strong, launches))->serial_share;
    holds += share.interval->lo <= expected && expected <= share.interval->hi ? 1 : 0;
  }
  std::printf("%.1f %% of the intervals hold the expected share %.4f\n", 100.0 * holds / studies,
              expected);
  EXPECT_GE(holds, studies * 92 / 100);
  EXPECT_LE(holds, studies * 98 / 100);
}

}  // namespace
}  // namespace shardstream::report
