// The diagnosis of hanging ranks from their latest reports.
#include "watchdog/diagnosis.hpp"

#include <gtest/gtest.h>

#include "support/errors.hpp"

namespace shardstream::watchdog {
namespace {

using test::names;

constexpr double timeout = 300, interval = 1;

/// Ranks on one host each that have just reported and have made no progress for `still` seconds.
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
  const auto diagnosis = diagnose_hang(all, timeout, interval);
  return diagnosis ? diagnosis->sentence : "";
}

TEST(Diagnosis, AbsentWhileAnyRankMoves) {
  auto all = ranks(3, 2 * timeout);
  EXPECT_NE(sentence(all), "");
  all[2].still = timeout - 0.1;
  EXPECT_EQ(sentence(all), "");
  all[0].silent = all[1].silent = 2 * timeout;
  EXPECT_EQ(sentence(all), "");
  EXPECT_EQ(sentence({}), "");
}

TEST(Diagnosis, TheRankThatDoesNotWaitHangs) {
  auto all = ranks(3);
  all[2].pulse = {.phase = "stream", .step = "batch 17", .moves = 3, .waiting = false};
  const std::string text = sentence(all);
  EXPECT_TRUE(names(text, "300 s", "comm.timeout", "rank 2", "node2", "pid 4002", "hangs", "stream",
                    "batch 17", "combine"));
  EXPECT_FALSE(names(text, "rank 0"));
  EXPECT_TRUE(diagnose_hang(all, timeout, interval)->silent.empty());
}

TEST(Diagnosis, SilentRanksAreNamedBeforeRanksThatDoNotWait) {
  auto all = ranks(4);
  all[1].silent = 12;
  all[1].pulse.waiting = false;
  all[2].pulse.waiting = false;
  const auto diagnosis = diagnose_hang(all, timeout, interval);
  ASSERT_TRUE(diagnosis);
  EXPECT_TRUE(names(diagnosis->sentence, "300 s", "comm.timeout", "rank 1", "node1", "pid 4001",
                    "hangs", "combine", "12 s"));
  // No other rank is named, although one of them does not wait.
  EXPECT_EQ(diagnosis->sentence.find("rank"), diagnosis->sentence.rfind("rank"))
      << diagnosis->sentence;
  EXPECT_EQ(diagnosis->silent, std::vector<int>{1});
}

TEST(Diagnosis, ABlockedNetworkIsNamedIfAllWaitOnSeveralHosts) {
  auto all = ranks(2);
  EXPECT_TRUE(names(sentence(all), "rank 0", "rank 1", "waits", "NCCL_SOCKET_IFNAME"));
  all[1].host = all[0].host;
  EXPECT_FALSE(names(sentence(all), "NCCL_SOCKET_IFNAME"));
  all = ranks(2);
  all[1].pulse.waiting = false;
  EXPECT_FALSE(names(sentence(all), "NCCL_SOCKET_IFNAME"));
}

TEST(Diagnosis, ALateReportIsNoSilence) {
  auto all = ranks(2);
  all[1].silent = 4.9 * interval;
  EXPECT_TRUE(diagnose_hang(all, timeout, interval)->silent.empty());
  all[1].silent = 5 * interval;
  EXPECT_EQ(diagnose_hang(all, timeout, interval)->silent, std::vector<int>{1});
}

TEST(Diagnosis, NamesAllRanksIfAllWait) {
  auto all = ranks(2);
  all[1].pulse.phase = "verify";
  const std::string text = sentence(all);
  EXPECT_TRUE(names(text, "300 s", "comm.timeout", "rank 0", "node0", "pid 4000", "waits",
                    "combine", "rank 1", "node1", "pid 4001", "verify"));
  EXPECT_FALSE(names(text, "hangs"));
}

TEST(Diagnosis, NamesAFewOfManyRanks) {
  auto all = ranks(9);
  for (auto& rank : all) rank.pulse.waiting = rank.rank < 2;
  const std::string text = sentence(all);
  EXPECT_TRUE(names(text, "rank 5", "node5", "pid 4005", "hangs", "combine", 3));
  EXPECT_FALSE(names(text, "rank 6"));
}

TEST(Diagnosis, OthersInSeveralPhasesWait) {
  auto all = ranks(3);
  all[0].pulse.waiting = false;
  all[1].pulse.phase = "load";
  EXPECT_FALSE(names(sentence(all), "load")) << "rank 2 waits elsewhere";
  all.pop_back();
  EXPECT_TRUE(names(sentence(all), "rank 1 waits", "load"));
}

TEST(Diagnosis, NamesADeadRank) {
  auto all = ranks(2);
  all[1].pulse = {.phase = "stream", .step = "batch 3", .moves = 3, .waiting = false};
  EXPECT_TRUE(names(lost_rank_message(all[1]), "rank 1", "node1", "pid 4001", "stream", "batch 3"));
}

}  // namespace
}  // namespace shardstream::watchdog
