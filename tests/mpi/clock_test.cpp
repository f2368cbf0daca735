// The ranks' clocks and timelines. Tests run on one host, whose steady clock all ranks share.
#include "measure/clock.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "measure/track.hpp"
#include "support/session.hpp"

namespace shardstream::measure {
namespace {

using test::session;

TEST(Clocks, OfOneHostAgreeWithinTheError) {
  for (int i = 0; i < 3; ++i) {
    const std::int64_t before = steady_ns();
    const ClockOffset clock = compare_clocks(session());
    EXPECT_LE(std::abs(clock.offset_ns), clock.error_ns);
    EXPECT_LT(clock.error_ns, 100'000'000);
    EXPECT_EQ(clock.error_ns > 0, session().rank() > 0);
    EXPECT_GE(clock.at_ns, before);
    EXPECT_LE(clock.at_ns, steady_ns());
  }
}

TEST(Timeline, HasEveryRanksSpansOnOneClock) {
  const ClockOffset start = compare_clocks(session());
  Recorder recorder(true);
  constexpr int turns = 3;
  for (int turn = 0; turn < turns * session().size(); ++turn) {  // one rank after the other
    if (turn % session().size() == session().rank()) {
      const auto span =
          recorder.host_track("turns").phase("turn", measure::PhaseKind::useful, 1, turn);
    }
    session().barrier();
  }
  const Timeline timeline = gather_timeline(session(), recorder, start);
  EXPECT_EQ(timeline.alignment_error, session().max(timeline.alignment_error));
  if (session().rank() > 0) {
    EXPECT_TRUE(timeline.spans.empty());
    return;
  }
  const auto ranks = static_cast<std::uint32_t>(session().size());
  ASSERT_EQ(timeline.spans.size(), turns * ranks);
  std::vector<const Timeline::Span*> by_turn(timeline.spans.size());
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    const auto& span = timeline.spans[i];
    EXPECT_EQ(span.rank, i / turns);
    EXPECT_EQ(span.phase, 0U);
    EXPECT_EQ(span.batch % ranks, span.rank);
    by_turn.at(static_cast<std::size_t>(span.batch)) = &span;
  }
  EXPECT_EQ(by_turn[0]->start_ns, 0);
  const auto error = static_cast<std::int64_t>(timeline.alignment_error * 1e9);
  for (std::size_t i = 1; i < by_turn.size(); ++i) {
    EXPECT_GE(by_turn[i]->start_ns + 2 * error, by_turn[i - 1]->start_ns + by_turn[i - 1]->dur_ns);
  }
}

TEST(Timeline, IsEmptyWithoutKeptSpans) {
  Recorder recorder;
  { const auto span = recorder.phase("work", measure::PhaseKind::useful); }
  EXPECT_TRUE(gather_timeline(session(), recorder, {}).spans.empty());
}

}  // namespace
}  // namespace shardstream::measure
