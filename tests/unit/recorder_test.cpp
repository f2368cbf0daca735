// Phases, spans and sums of the host's tracks; the arithmetic of clocks.
#include "measure/track.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "measure/clock.hpp"

namespace shardstream::measure {
namespace {

using std::chrono::milliseconds;

double seconds(const KeptSpan& span) {
  return static_cast<double>(span.dur_ns) / 1e9;
}

TEST(Recorder, APhaseIsTheSumOfItsSpans) {
  Recorder recorder;
  for (int i = 0; i < 3; ++i) {
    const auto span = recorder.phase("sleep", PhaseKind::waiting, 10);
    std::this_thread::sleep_for(milliseconds(2));
  }
  { const auto span = recorder.phase("nothing", PhaseKind::useful); }
  const auto& phases = recorder.main().phases();
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(phases[0].name, "sleep");
  EXPECT_EQ(phases[0].calls, 3U);
  EXPECT_EQ(phases[0].bytes, 30U);
  EXPECT_GE(phases[0].seconds, 0.006);
  EXPECT_EQ(phases[1].name, "nothing");
  EXPECT_EQ(phases[1].calls, 1U);
  EXPECT_LT(phases[1].seconds, phases[0].seconds);
  EXPECT_TRUE(recorder.main().spans().empty());  // it does not keep them
}

TEST(Recorder, PhasesDifferByKind) {
  Recorder recorder;
  for (const PhaseKind kind : {PhaseKind::useful, PhaseKind::communication, PhaseKind::useful}) {
    const auto span = recorder.phase("warm-up", kind, 1);
  }
  const auto& phases = recorder.main().phases();
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(word_of(phases[0].kind), "useful");
  EXPECT_EQ(phases[0].bytes, 2U);
  EXPECT_EQ(word_of(phases[1].kind), "communication");
  EXPECT_EQ(phases[1].bytes, 1U);
  EXPECT_EQ(word_of(PhaseKind::transfer), "transfer");
  EXPECT_EQ(word_of(PhaseKind::waiting), "waiting");
}

TEST(Recorder, SpansNestAndAreKeptInTheOrderOfTheirBegin) {
  Recorder recorder(true);
  {
    const auto outer = recorder.phase("outer", PhaseKind::useful);
    for (int batch = 0; batch < 2; ++batch) {
      const auto inner = recorder.main().phase("inner", PhaseKind::useful, 0, batch);
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  const auto& phases = recorder.main().phases();
  const auto& spans = recorder.main().spans();
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(phases[spans[0].phase].name, "outer");
  EXPECT_EQ(spans[0].batch, no_batch);
  for (int i : {1, 2}) {
    const KeptSpan& inner = spans[static_cast<std::size_t>(i)];
    EXPECT_EQ(phases[inner.phase].name, "inner");
    EXPECT_EQ(inner.batch, i - 1);
    EXPECT_GE(inner.start_ns, spans[0].start_ns);
    EXPECT_LE(inner.start_ns + inner.dur_ns, spans[0].start_ns + spans[0].dur_ns);
  }
  EXPECT_LE(spans[1].start_ns + spans[1].dur_ns, spans[2].start_ns);
  EXPECT_NEAR(phases[0].seconds, seconds(spans[0]), 1e-9);
  EXPECT_NEAR(phases[1].seconds, seconds(spans[1]) + seconds(spans[2]), 1e-9);
}

TEST(Recorder, ATrackIsFoundByItsNameAndKeepsItsAddress) {
  Recorder recorder(true);
  HostTrack& first = recorder.host_track("reader 0");
  for (int i = 1; i < 1000; ++i) recorder.host_track(fmt::format("reader {}", i));
  EXPECT_EQ(&recorder.host_track("reader 0"), &first);
  EXPECT_EQ(&recorder.host_track("main"), &recorder.main());
  EXPECT_EQ(recorder.host_tracks().size(), 1001U);
}

TEST(Recorder, ThreadsHaveSeparateTracks) {
  Recorder recorder(true);
  std::vector<HostTrack*> tracks;
  for (int i = 0; i < 4; ++i) tracks.push_back(&recorder.host_track(fmt::format("t{}", i)));
  std::vector<std::thread> threads;
  for (HostTrack* track : tracks) {
    threads.emplace_back([track] {
      for (int i = 0; i < 10000; ++i)
        const auto span = track->phase("read", PhaseKind::useful, 7, i);
    });
  }
  for (auto& thread : threads) thread.join();
  for (const HostTrack* track : tracks) {
    EXPECT_EQ(track->spans().size(), 10000U);
    EXPECT_EQ(track->phases().at(0).bytes, 70000U);
  }
}

TEST(ClockAlignment, WithoutDriftIsTheOffset) {
  const ClockOffset once{.at_ns = 1000, .offset_ns = -300, .error_ns = 5};
  const ClockAlignment same(once, once);
  EXPECT_EQ(same.on_rank0(1000), 700);
  EXPECT_EQ(same.on_rank0(0), -300);
  EXPECT_EQ(same.error(), 5);
  EXPECT_EQ(ClockAlignment({}, {.at_ns = 99}).on_rank0(42), 42);  // on rank 0
}

TEST(ClockAlignment, DriftsEvenlyBetweenTheComparisons) {
  const std::int64_t hour = 3'600'000'000'000, up = 8'000'000'000'000'000;  // ns; 92 days
  const ClockAlignment drifting({up, 1000, 20}, {up + hour, 9000, 10});
  EXPECT_EQ(drifting.on_rank0(up), up + 1000);
  EXPECT_EQ(drifting.on_rank0(up + hour), up + hour + 9000);
  EXPECT_EQ(drifting.on_rank0(up + hour / 4), up + hour / 4 + 3000);
  EXPECT_EQ(drifting.error(), 20);
}

TEST(ClockAlignment, DifferencesWithinTheErrorsAreNotDrift) {
  const ClockAlignment alike({0, 400'000, 500'000}, {2'000'000, -90, 100});
  EXPECT_EQ(alike.on_rank0(0), -90);
  EXPECT_EQ(alike.on_rank0(1'500'000), 1'500'000 - 90);
  EXPECT_EQ(ClockAlignment({0, 10, 1}, {2'000'000, 90, 500}).on_rank0(50), 60);
}

}  // namespace
}  // namespace shardstream::measure
