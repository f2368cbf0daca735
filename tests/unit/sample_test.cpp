// The stopping rule, with made-up times.
#include "measure/sample.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "support/errors.hpp"

namespace shardstream::measure {
namespace {

using test::names;

constexpr Sampling automatic{.warmup = 1, .precision = 0.01, .max_time = 60};

Options options(const std::vector<std::string>& words) {
  const OptionTable table({measure_options()});
  const char* const none[] = {nullptr};
  return table.resolve(table.parse_command_line(words), none, std::nullopt);
}

TEST(Stop, AnExactNumberIgnoresTimes) {
  const Sampling three{.warmup = 0, .repetitions = 3, .max_time = 1};
  EXPECT_EQ(end_of_sampling(std::vector{1.0, 9.0}, 100, three), std::nullopt);
  EXPECT_EQ(end_of_sampling(std::vector{1.0, 9.0, 1.0}, 100, three), Convergence::fixed);
}

TEST(Stop, FewerThanSixSamplesNeverConverge) {
  EXPECT_EQ(end_of_sampling(std::vector<double>(5, 1.0), 5, automatic), std::nullopt);
  EXPECT_EQ(end_of_sampling(std::vector<double>(6, 1.0), 6, automatic), Convergence::converged);
}

/// The interval of six samples reaches from the minimum to the maximum.
TEST(Stop, TheIntervalIsWithinThePrecisionOnBothSides) {
  const auto six = [](double min, double max) { return std::vector{1.0, min, 1.0, 1.0, max, 1.0}; };
  EXPECT_EQ(end_of_sampling(six(0.991, 1.009), 6, automatic), Convergence::converged);
  EXPECT_EQ(end_of_sampling(six(0.989, 1.0), 6, automatic), std::nullopt);
  EXPECT_EQ(end_of_sampling(six(1.0, 1.011), 6, automatic), std::nullopt);
  EXPECT_EQ(end_of_sampling(six(1.0, 1.011), 6, {.precision = 0.02}), Convergence::converged);
}

TEST(Stop, OneOutlierAmongNineIsOutsideTheInterval) {
  std::vector<double> seconds(9, 1.0);
  seconds[4] = 10;
  EXPECT_EQ(end_of_sampling({seconds.data(), 8}, 17, automatic), std::nullopt);
  EXPECT_EQ(end_of_sampling(seconds, 18, automatic), Convergence::converged);
}

TEST(Stop, MaxTimeAndMaxRepetitionsEndUnconverged) {
  std::vector<double> seconds;
  for (std::size_t i = 0; i < Sampling::max_repetitions; ++i) seconds.push_back(i % 2 ? 1 : 2);
  EXPECT_EQ(end_of_sampling({seconds.data(), 1}, 60, automatic), Convergence::unconverged);
  EXPECT_EQ(end_of_sampling({seconds.data(), 20}, 59.9, automatic), std::nullopt);
  EXPECT_EQ(end_of_sampling({seconds.data(), 20}, 60, automatic), Convergence::unconverged);
  EXPECT_EQ(end_of_sampling({seconds.data(), 999}, 1, automatic), std::nullopt);
  EXPECT_EQ(end_of_sampling(seconds, 1, automatic), Convergence::unconverged);
}

TEST(Stop, ConvergenceWinsOverMaxTime) {
  EXPECT_EQ(end_of_sampling(std::vector<double>(6, 1.0), 61, automatic), Convergence::converged);
}

TEST(SamplingOptions, AreFixedByDefault) {
  const Sampling policy = sampling(options({}));
  EXPECT_EQ(policy.warmup, 0U);
  EXPECT_EQ(policy.repetitions, 1U);
}

TEST(SamplingOptions, AutoWarmsUpAtLeastOnce) {
  const Sampling once = sampling(options({"--measure.repeat", "auto"}));
  EXPECT_EQ(once.warmup, 1U);
  EXPECT_EQ(once.repetitions, std::nullopt);
  EXPECT_EQ(once.precision, 0.01);
  EXPECT_EQ(once.max_time, 60);
  const Sampling more =
      sampling(options({"--measure.repeat", "auto", "--measure.warmup", "3", "--measure.precision",
                        "0.05", "--measure.max-time", "2min"}));
  EXPECT_EQ(more.warmup, 3U);
  EXPECT_EQ(more.precision, 0.05);
  EXPECT_EQ(more.max_time, 120);
}

/// The warnings about `seconds` repetitions that ended as `convergence` says.
std::vector<std::string> warnings(const std::vector<double>& seconds, Convergence convergence) {
  Samples samples;
  samples.convergence = convergence;
  for (const double s : seconds) samples.repetitions.push_back({s, {s}, {}, {}});
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::tmpfile(), std::fclose);
  Log log({}, out.get());
  warn_if_unconverged(samples, automatic, log);
  return log.warnings();
}

TEST(Unconverged, WarnsOnceWithTheIntervalAndTheOptions) {
  EXPECT_TRUE(warnings({1, 2}, Convergence::fixed).empty());
  EXPECT_TRUE(warnings({1, 1, 1, 1, 1, 1}, Convergence::converged).empty());
  const auto six = warnings({8, 10, 10, 10, 10, 13}, Convergence::unconverged);
  ASSERT_EQ(six.size(), 1U);
  EXPECT_TRUE(names(six[0], "-20 %", "+30 %", "measure.max-time", "measure.precision"));
  const auto two = warnings({1, 2}, Convergence::unconverged);
  ASSERT_EQ(two.size(), 1U);
  EXPECT_FALSE(names(two[0], "nan"));
  // More time would not help.
  const auto all =
      warnings(std::vector<double>(Sampling::max_repetitions, 1), Convergence::unconverged);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_FALSE(names(all[0], "measure.max-time"));
}

}  // namespace
}  // namespace shardstream::measure
