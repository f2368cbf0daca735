// The law of `model` compared with values computed by hand, its noise, its kernel on the host
// backend, and its verification.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "device/buffer.hpp"
#include "device/host/host_device.hpp"
#include "support/errors.hpp"
#include "workloads/model/law.hpp"
#include "workloads/model/model_report.hpp"
#include "workloads/model/spin.hpp"

namespace shardstream::workloads::model {
namespace {

using test::names;

/// T(8) = 0.05 + 0.95 / 8 = 0.16875, and 1 / 0.16875 = 160 / 27.
TEST(ModelLaw, FixedWorkFollowsAmdahl) {
  const Law law{.work = 1, .serial = 0.05};
  EXPECT_DOUBLE_EQ(predict(law, 1).total(), 1);
  EXPECT_DOUBLE_EQ(predict(law, 8).serial, 0.05);
  EXPECT_DOUBLE_EQ(predict(law, 8).parallel, 0.11875);
  EXPECT_DOUBLE_EQ(predict(law, 8).total(), 0.16875);
  EXPECT_DOUBLE_EQ(speedup(law, 8), 160.0 / 27);
  EXPECT_DOUBLE_EQ(efficiency(law, 8), 20.0 / 27);
  EXPECT_NEAR(speedup(law, 1'000'000'000), 20, 1e-6);  // 1 / s
}

TEST(ModelLaw, ExtremeSharesGiveNoOrIdealSpeedup) {
  const Law serial{.work = 3, .serial = 1}, parallel{.work = 3, .serial = 0};
  EXPECT_DOUBLE_EQ(speedup(serial, 7), 1);
  EXPECT_EQ(predict(serial, 7).parallel, 0);
  EXPECT_DOUBLE_EQ(speedup(parallel, 7), 7);
  EXPECT_DOUBLE_EQ(efficiency(parallel, 7), 1);
}

/// T(8) = 0.16875 + 3 * 0.01; three doublings. T(6) has log2(6) = 2.584962500721156 of them.
TEST(ModelLaw, OverheadGrowsWithEachDoubling) {
  const Law law{.work = 1, .serial = 0.05, .overhead = 0.01};
  EXPECT_EQ(predict(law, 1).overhead, 0);
  EXPECT_DOUBLE_EQ(predict(law, 8).total(), 0.19875);
  EXPECT_DOUBLE_EQ(predict(law, 6).overhead, 0.02584962500721156);
}

/// Four parts of 1 s: 0.2, 0.2333, 0.2667 and 0.3 s.
TEST(ModelLaw, ImbalanceKeepsTheMean) {
  const Law law{.work = 1, .serial = 0, .imbalance = 0.2};
  EXPECT_DOUBLE_EQ(predict(law, 4).parallel, 0.3);
  const std::vector<std::int64_t> expected = {200'000'000, 233'333'333, 266'666'667, 300'000'000};
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(parts_of(law, {}, rank, 4, 0).parallel, expected[rank]) << rank;
  }
  EXPECT_EQ(counted_of_all(law, {}, 4, 0), 1'000'000'000);
  EXPECT_DOUBLE_EQ(predict(law, 1).total(), 1);  // a lone rank is the mean
}

/// W(8) = 0.05 + 8 * 0.95 = 7.65 = 8 - 0.05 * 7, in the time of one rank.
TEST(ModelLaw, ScaledWorkFollowsGustafson) {
  const Law law{.work = 1, .serial = 0.05};
  const Law scaled_law = scaled(law, 8);
  EXPECT_DOUBLE_EQ(counted_work(scaled_law), 7.65);
  EXPECT_DOUBLE_EQ(predict(scaled_law, 8).serial, 0.05);
  EXPECT_DOUBLE_EQ(predict(scaled_law, 8).total(), 1);
  EXPECT_DOUBLE_EQ(counted_work(scaled(law, 1)), 1);
}

TEST(ModelLaw, OnlyRankZeroIsSerialAndOverheadIsNoWork) {
  const Law law{.work = 2, .serial = 0.25, .overhead = 0.5};
  EXPECT_EQ(parts_of(law, {}, 0, 2, 0).serial, 500'000'000);
  EXPECT_EQ(parts_of(law, {}, 1, 2, 0).serial, 0);
  EXPECT_EQ(parts_of(law, {}, 1, 2, 0).overhead, 500'000'000);
  EXPECT_EQ(parts_of(law, {}, 0, 2, 0).counted(), 1'250'000'000);
  EXPECT_EQ(counted_of_all(law, {}, 2, 0), 2'000'000'000);
}

constexpr Draws seven{.seed = 7, .replicate = 2};

TEST(ModelNoise, DependsOnlyOnSeedLaunchRankAndRepetition) {
  const double drawn = factor(0.3, seven, 8, 3, 5);
  EXPECT_EQ(drawn, factor(0.3, seven, 8, 3, 5));
  EXPECT_NE(drawn, factor(0.3, seven, 8, 5, 3));
  EXPECT_NE(drawn, factor(0.3, {.seed = 8, .replicate = 2}, 8, 3, 5));
  EXPECT_EQ(factor(0, seven, 8, 3, 5), 1);
}

/// The correlation of 50 000 pairs is uncertain by 0.0045 (one sigma).
TEST(ModelNoise, OfLaunchesOfAStudyIsIndependent) {
  const auto correlation = [](const Draws& draws, std::uint64_t ranks) {
    constexpr int count = 50'000;
    double product = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      product +=
          (factor(0.3, seven, 8, i % 8, i / 8) - 1) * (factor(0.3, draws, ranks, i % 8, i / 8) - 1);
    }
    return product / count / (0.3 * 0.3);
  };
  EXPECT_NEAR(correlation(seven, 8), 1, 0.1);  // the same launch
  EXPECT_NEAR(correlation({.seed = 7, .replicate = 3}, 8), 0, 0.02);
  EXPECT_NEAR(correlation(seven, 16), 0, 0.02);
}

/// Of 200 000 values the mean is uncertain by 0.0007 (one sigma); a log-normal deviation by 0.001.
TEST(ModelNoise, HasTheRequestedMeanAndDeviation) {
  double sum = 0, squares = 0;
  constexpr int count = 200'000;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double x = factor(0.3, {}, 8, i % 8, i / 8);
    ASSERT_GT(x, 0);
    sum += x;
    squares += x * x;
  }
  const double mean = sum / count;
  EXPECT_NEAR(mean, 1, 0.004);
  EXPECT_NEAR(std::sqrt(squares / count - mean * mean), 0.3, 0.006);
}

TEST(ModelNoise, DoesNotAffectWarmUps) {
  const Law law{.work = 1, .serial = 0, .noise = 0.5};
  EXPECT_EQ(parts_of(law, {}, 0, 2, std::nullopt).parallel, 500'000'000);
  EXPECT_NE(parts_of(law, {}, 0, 2, 0).parallel, 500'000'000);
}

double normal_cdf(double z) {
  return std::erfc(-z / std::sqrt(2.0)) / 2;
}

/// The probability that log-normal variables with these means are all below x.
double all_below(double x, double noise, const std::vector<double>& means) {
  const double variance = std::log1p(noise * noise);
  double product = 1;
  for (const double mean : means) {
    product *= normal_cdf((std::log(x / mean) + variance / 2) / std::sqrt(variance));
  }
  return product;
}

TEST(ModelSlowest, IsAboveItsMedianInHalfOfAllRepetitions) {
  for (const double noise : {0.001, 0.1, 1.0}) {
    for (const double imbalance : {0.0, 0.2, 0.9}) {
      const Law law{.imbalance = imbalance, .noise = noise};
      const std::vector<double> three = {1 - imbalance, 1, 1 + imbalance};
      EXPECT_NEAR(all_below(median_of_slowest(law, 3), noise, three), 0.5, 1e-9);
      EXPECT_NEAR(all_below(median_of_slowest(law, 1), noise, {1}), 0.5, 1e-9);
    }
  }
}

/// For n normal deviates, F(z)^n = 1/2: F(0.544952) = 0.7071068, F(1.498767) = 0.9330330.
TEST(ModelSlowest, OfLittleNoiseIsThatOfNormalDeviates) {
  const double noise = 1e-6;
  for (const auto& [ranks, deviates] : {std::pair{1, 0.0}, {2, 0.544952}, {10, 1.498767}}) {
    const double found = median_of_slowest({.noise = noise}, static_cast<std::uint64_t>(ranks));
    EXPECT_NEAR((found - 1) / noise, deviates, 1e-5) << ranks;
  }
}

/// The median over repetitions of the draws themselves, with 0.3 % as its uncertainty (one sigma).
TEST(ModelSlowest, IsTheMedianOverRepetitions) {
  for (const Law& law :
       {Law{.serial = 0, .noise = 0.3}, Law{.serial = 0, .imbalance = 0.4, .noise = 0.3},
        Law{.serial = 0, .imbalance = 1, .noise = 0.3}}) {
    std::vector<double> seconds(10'001);
    for (std::size_t repetition = 0; repetition < seconds.size(); ++repetition) {
      std::int64_t slowest = 0;
      for (std::uint64_t rank = 0; rank < 8; ++rank) {
        slowest = std::max(slowest, parts_of(law, {}, rank, 8, repetition).parallel);
      }
      seconds[repetition] = 1e-9 * static_cast<double>(slowest);
    }
    const auto middle = seconds.begin() + 5000;
    std::nth_element(seconds.begin(), middle, seconds.end());
    EXPECT_NEAR(*middle, predict(law, 8).parallel, 0.01 * predict(law, 8).parallel);
  }
}

/// Groups of ranks stand for single ones from 1025 ranks on.
TEST(ModelSlowest, GrowsSmoothlyToManyRanks) {
  const Law law{.imbalance = 0.5, .noise = 0.2};
  const double single = median_of_slowest(law, 1024);
  EXPECT_NEAR(median_of_slowest(law, 1025), single, 1e-3);
  double before = single;
  for (std::uint64_t ranks = 2048; ranks < (std::uint64_t{1} << 40); ranks *= 32) {
    EXPECT_GT(median_of_slowest(law, ranks), before);
    before = median_of_slowest(law, ranks);
  }
}

TEST(ModelSpin, LastsAsLongAsAskedAndCountsOnce) {
  using Clock = std::chrono::steady_clock;
  const auto device = device::host::make_device(3);
  const auto stream = device->make_stream();
  const device::Buffer<std::int64_t> counter(*device, device::Memory::device, 1);
  counter[0] = 5;
  const auto begin = Clock::now();
  for (const std::int64_t nanoseconds : {3'000'000, 0}) {
    stream->launch(spin_kernel(), {nanoseconds, 1, 1000, counter.data()});
  }
  stream->synchronize();
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(3));
  EXPECT_EQ(counter[0], 2005);
}

RankReport reported(std::int64_t asked, std::int64_t lasted) {
  RankReport report{.counted = asked};
  report.spent.add(10, 11);
  report.spent.add(asked, lasted);
  return report;
}

TEST(ModelVerification, AcceptsPartsThatLastedLongEnough) {
  EXPECT_EQ(fault({reported(100, 100), reported(100, 105)}, std::nullopt), "");
}

/// Longer other parts do not compensate for it.
TEST(ModelVerification, ReportsAPartThatEndedEarly) {
  RankReport report = reported(100, 98);
  report.spent.add(100, 500);
  const std::string found = fault({reported(100, 100), report}, std::nullopt);
  EXPECT_TRUE(names(found, "rank 1", "2 ns"));
}

TEST(ModelVerification, ReportsAWrongSum) {
  const std::string found = fault({reported(100, 100)}, WrongSum{4, 99, 100});
  EXPECT_TRUE(names(found, "repetition 4", "99 ns", "100 ns"));
}

}  // namespace
}  // namespace shardstream::workloads::model
