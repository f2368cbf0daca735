// The progress that a rank reports.
#include "ranks/heartbeat.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace shardstream::ranks {
namespace {

TEST(Heartbeat, ReportsPhaseAndStep) {
  Heartbeat heartbeat;
  EXPECT_EQ(heartbeat.pulse().phase, "start");
  heartbeat.enter("stream");
  EXPECT_EQ(heartbeat.pulse().step, "");
  heartbeat.step("batch", 17);
  EXPECT_EQ(heartbeat.pulse().phase, "stream");
  EXPECT_EQ(heartbeat.pulse().step, "batch 17");
  heartbeat.enter("combine");
  EXPECT_EQ(heartbeat.pulse().phase, "combine");
  EXPECT_EQ(heartbeat.pulse().step, "");
}

TEST(Heartbeat, EveryCallExceptPulseIsProgress) {
  Heartbeat heartbeat;
  auto before = heartbeat.pulse().moves;
  const auto has_moved = [&] {
    return heartbeat.pulse().moves != std::exchange(before, heartbeat.pulse().moves);
  };
  EXPECT_FALSE(has_moved());
  heartbeat.enter("start");
  EXPECT_TRUE(has_moved());
  heartbeat.step("batch", 0);
  EXPECT_TRUE(has_moved());
  heartbeat.step("batch", 0);
  EXPECT_TRUE(has_moved());
  heartbeat.move();
  EXPECT_TRUE(has_moved());
  EXPECT_FALSE(has_moved());
}

TEST(Heartbeat, WaitsNestAndKeepThePhase) {
  Heartbeat heartbeat;
  heartbeat.enter("combine");
  const auto before = heartbeat.pulse().moves;
  {
    const auto outer = heartbeat.waiting();
    { const auto inner = heartbeat.waiting(); }
    EXPECT_TRUE(heartbeat.pulse().waiting);
  }
  EXPECT_FALSE(heartbeat.pulse().waiting);
  EXPECT_EQ(heartbeat.pulse().phase, "combine");
  EXPECT_NE(heartbeat.pulse().moves, before);
}

TEST(Heartbeat, StopAllCallsOnlyLivingAtHangs) {
  Heartbeat heartbeat;
  int first = 0, second = 0;
  const Heartbeat::AtHang one(heartbeat, [&] { ++first; });
  {
    const Heartbeat::AtHang other(heartbeat, [&] { ++second; });
    heartbeat.stop_all();
  }
  heartbeat.stop_all();
  EXPECT_EQ(first, 2);
  EXPECT_EQ(second, 1);
}

}  // namespace
}  // namespace shardstream::ranks
