// Ranks of different speed take the same samples.
#include "measure/sample.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "support/session.hpp"

namespace shardstream::measure {
namespace {

using namespace std::chrono_literals;
using test::session;

void expect_same_everywhere(double value) {
  EXPECT_EQ(session().max(value), -session().max(-value)) << "differs between ranks";
}

void expect_same_everywhere(const Samples& samples) {
  const auto count = static_cast<double>(samples.repetitions.size());
  expect_same_everywhere(count);
  expect_same_everywhere(static_cast<double>(samples.convergence));
  for (const double seconds : samples.seconds()) expect_same_everywhere(seconds);
  const auto ranks = static_cast<std::size_t>(session().size());
  for (const Repetition& repetition : samples.repetitions) {
    ASSERT_EQ(repetition.ranks.size(), ranks);
  }
}

/// Each rank in turn is slow, so that its clock shows more time at the end of a repetition than the
/// others' clocks. Ranks that went by their own would stop at different repetitions and hang.
TEST(Sample, RanksOfDifferentSpeedStopTogether) {
  for (int slow = 0; slow < session().size(); ++slow) {
    int calls = 0;
    const auto work = [&](bool timed) {
      if (timed) ++calls;
      // In turn longer and shorter, which does not converge
      if (session().rank() == slow) std::this_thread::sleep_for(calls % 2 == 0 ? 2ms : 6ms);
    };
    const Samples samples = sample(session(), {.precision = 0.0001, .max_time = 0.05}, work);
    expect_same_everywhere(samples);
    EXPECT_EQ(samples.convergence, Convergence::unconverged);
    EXPECT_EQ(samples.repetitions.size(), static_cast<std::size_t>(calls));
    for (const Repetition& repetition : samples.repetitions) {
      EXPECT_GE(repetition.ranks[static_cast<std::size_t>(slow)], 0.002);
      EXPECT_EQ(repetition.seconds, std::ranges::max(repetition.ranks));
    }
  }
}

TEST(Sample, SteadyWorkConverges) {
  const auto work = [](bool) { std::this_thread::sleep_for(1ms * (1 + session().rank())); };
  const Samples samples = sample(session(), {.precision = 1}, work);
  expect_same_everywhere(samples);
  EXPECT_EQ(samples.convergence, Convergence::converged);
  EXPECT_GE(samples.repetitions.size(), 6U);
}

TEST(Sample, AnExactNumberComesAfterTheWarmUps) {
  std::vector<bool> calls;
  std::vector<std::size_t> checked;
  const Samples samples = sample(
      session(), {.warmup = 2, .repetitions = 3}, [&](bool timed) { calls.push_back(timed); },
      nullptr, [&] { checked.push_back(calls.size()); });
  EXPECT_EQ(calls, (std::vector<bool>{false, false, true, true, true}));
  EXPECT_EQ(checked, (std::vector<std::size_t>{1, 2, 3, 4, 5}));
  expect_same_everywhere(samples);
  EXPECT_EQ(samples.repetitions.size(), 3U);
  EXPECT_EQ(samples.convergence, Convergence::fixed);
  for (std::size_t i = 1; i < samples.repetitions.size(); ++i) {
    EXPECT_GE(samples.repetitions[i].begin, samples.repetitions[i - 1].end);
  }
}

TEST(TimeInStep, BeginsWhenAllRanksAreThere) {
  const auto seconds = [](std::chrono::steady_clock::time_point time) {
    return std::chrono::duration<double>(time.time_since_epoch()).count();
  };
  std::this_thread::sleep_for(5ms * session().rank());
  const auto here = std::chrono::steady_clock::now();
  const TimeInterval mine = time_in_step(session(), [] { std::this_thread::sleep_for(2ms); });
  EXPECT_GE(mine.seconds(), 0.002);
  EXPECT_GE(seconds(mine.begin), session().max(seconds(here)));  // all ranks share one clock
}

TEST(RepeatFor, EachRankCallsForTheSameTime) {
  int calls = 0;
  const double call = repeat_for(session(), 0.02, [&] {
    ++calls;
    std::this_thread::sleep_for(1ms * (1 + session().rank()));
  });
  EXPECT_GE(call, 0.001 * (1 + session().rank()));
  EXPECT_GE(call * calls, 0.02);
  calls = 0;
  (void)repeat_for(session(), 0, [&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace shardstream::measure
