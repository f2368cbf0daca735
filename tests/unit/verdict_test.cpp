// Who is said to hang, from what the ranks have told.
#include "comm/verdict.hpp"

#include <gtest/gtest.h>

namespace shardstream::comm {
namespace {

constexpr double timeout = 300, interval = 1;

/// Ranks of one host each that have told something just now and have not moved for `still` seconds.
std::vector<RankState> ranks(int count, double still = timeout) {
  std::vector<RankState> all;
  for (int rank = 0; rank < count; ++rank) {
    all.push_back({rank,
                   "node" + std::string(1, static_cast<char>('0' + rank)),
                   4000 + rank,
                   {.phase = "combine", .step = "", .moves = 7, .waiting = true},
                   0.4,
                   still});
  }
  return all;
}

std::string sentence(const std::vector<RankState>& all) {
  const auto verdict = judge_stillness(all, timeout, interval);
  return verdict ? verdict->sentence : "";
}

TEST(Verdict, NoneWhileAnyRankMoves) {
  auto all = ranks(3, 2 * timeout);
  EXPECT_NE(sentence(all), "");
  all[2].still = timeout - 0.1;
  EXPECT_EQ(sentence(all), "");
  all[0].silent = all[1].silent = 2 * timeout;
  EXPECT_EQ(sentence(all), "");
  EXPECT_EQ(sentence({}), "");
}

TEST(Verdict, TheOneThatWaitsForNobodyHangs) {
  auto all = ranks(3);
  all[2].pulse = {.phase = "stream", .step = "batch 17", .moves = 3, .waiting = false};
  EXPECT_EQ(sentence(all),
            "nothing has moved for 300 s (comm.timeout): rank 2 (node2, pid 4002) hangs in phase "
            "stream, batch 17; the others wait in combine");
  EXPECT_TRUE(judge_stillness(all, timeout, interval)->silent.empty());
}

TEST(Verdict, TheSilentComeBeforeThoseThatDoNotWait) {
  auto all = ranks(4);
  all[1].silent = 12;
  all[1].pulse.waiting = false;
  all[2].pulse.waiting = false;
  const auto verdict = judge_stillness(all, timeout, interval);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->sentence,
            "nothing has moved for 300 s (comm.timeout): rank 1 (node1, pid 4001) hangs in phase "
            "combine (not heard from for 12 s: its process does not run, or its host cannot be "
            "reached)");  // and nothing of the others, of which one does not wait
  EXPECT_EQ(verdict->silent, std::vector<int>{1});
}

TEST(Verdict, ABeatThatIsLateIsNoSilence) {
  auto all = ranks(2);
  all[1].silent = 4.9 * interval;
  EXPECT_TRUE(judge_stillness(all, timeout, interval)->silent.empty());
  all[1].silent = 5 * interval;
  EXPECT_EQ(judge_stillness(all, timeout, interval)->silent, std::vector<int>{1});
}

TEST(Verdict, WhereAllWaitAllAreNamed) {
  auto all = ranks(2);
  all[1].pulse.phase = "verify";
  EXPECT_EQ(sentence(all),
            "nothing has moved for 300 s (comm.timeout): rank 0 (node0, pid 4000) waits in phase "
            "combine and rank 1 (node1, pid 4001) waits in phase verify");
}

TEST(Verdict, OfManyAFewAreNamed) {
  auto all = ranks(9);
  for (auto& rank : all) rank.pulse.waiting = rank.rank < 2;
  const std::string text = sentence(all);
  EXPECT_NE(text.find("rank 5 (node5, pid 4005) hangs in phase combine and 3 more likewise; the "
                      "others wait in combine"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("rank 6"), std::string::npos) << text;
}

TEST(Verdict, OthersInSeveralPhasesWait) {
  auto all = ranks(3);
  all[0].pulse.waiting = false;
  all[1].pulse.phase = "load";
  EXPECT_TRUE(sentence(all).ends_with("; the others wait")) << sentence(all);
  all.pop_back();
  EXPECT_TRUE(sentence(all).ends_with("; rank 1 waits in load")) << sentence(all);
}

TEST(Verdict, OfADeadRank) {
  auto all = ranks(2);
  all[1].pulse = {.phase = "stream", .step = "batch 3", .moves = 3, .waiting = false};
  EXPECT_EQ(obituary(all[1]),
            "rank 1 (node1, pid 4001) has ended in phase stream, batch 3 (it was killed, or it "
            "crashed): see the system log of node1");
}

}  // namespace
}  // namespace shardstream::comm
