// Arithmetic of the experiments on the machine: sizes, bandwidth and data of collectives, and the
// advice on busy links.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "experiments/machine/advice.hpp"
#include "experiments/machine/messages.hpp"

namespace shardstream::experiments::machine {
namespace {

TEST(Messages, HaveTheirBytesOrAtLeastOneFloatForEachPart) {
  EXPECT_EQ(message_of(Collective::all_reduce, 4, 8).count, 1U);
  EXPECT_EQ(message_of(Collective::broadcast, 0, 8).count, 1U);
  EXPECT_EQ(message_of(Collective::all_gather, 4, 8).count, 8U);
  EXPECT_EQ(message_of(Collective::reduce_scatter, 1 << 20, 2).bytes(), 1U << 20);
  for (const std::uint64_t ranks : {2U, 3U, 7U}) {
    for (const std::uint64_t bytes :
         {std::uint64_t{4}, std::uint64_t{1000}, std::uint64_t{1} << 30}) {
      const Message message = message_of(Collective::reduce_scatter, bytes, ranks);
      EXPECT_EQ(message.part() * ranks, message.count);
      EXPECT_LE(message.count, std::max(bytes / 4, ranks));
      EXPECT_TRUE(message.part() < 4 || message.part() % 4 == 0) << message.part();
      EXPECT_EQ(message.received(), message.part());
    }
  }
}

/// The factors of nccl-tests, doc/PERFORMANCE.md.
TEST(Messages, HaveTheBusBandwidthOfNcclTests) {
  EXPECT_EQ(bus_factor(Collective::all_reduce, 2), 1);
  EXPECT_EQ(bus_factor(Collective::all_reduce, 8), 1.75);
  EXPECT_EQ(bus_factor(Collective::reduce_scatter, 8), 0.875);
  EXPECT_EQ(bus_factor(Collective::all_gather, 4), 0.75);
  EXPECT_EQ(bus_factor(Collective::broadcast, 8), 1);
}

TEST(Messages, HaveDataOfSmallIntegersThatDifferBetweenRanksAndPlaces) {
  int equal = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const float value = sent_by(1, i);
    EXPECT_TRUE(value >= 0 && value < 4096 && value == std::floor(value)) << value;
    equal += value == sent_by(2, i) || value == sent_by(1, i + 4096) ? 1 : 0;
  }
  EXPECT_LT(equal, 10);
}

TEST(Messages, AreReceivedAsTheirCollectiveSays) {
  const Message reduced = message_of(Collective::all_reduce, 400, 3);
  EXPECT_EQ(received_by(1, 7, reduced), sent_by(0, 7) + sent_by(1, 7) + sent_by(2, 7));
  const Message scattered = message_of(Collective::reduce_scatter, 480, 3);
  EXPECT_EQ(received_by(2, 7, scattered), received_by(0, 2 * 40 + 7, reduced));
  const Message gathered = message_of(Collective::all_gather, 480, 3);
  EXPECT_EQ(received_by(0, 45, gathered), sent_by(1, 5));
  EXPECT_EQ(received_by(2, 5, message_of(Collective::broadcast, 480, 3)), sent_by(0, 5));
}

/// Whether the advice on these links has all words.
void expect_advice(const std::vector<BusyLinks>& links, const std::vector<std::string>& words) {
  const std::string advice = advice_on("uploads", links);
  for (const std::string& word : words) {
    EXPECT_NE(advice.find(word), std::string::npos) << word << ": " << advice;
  }
}

TEST(Advice, FollowsFromTheRatesOfBusyLinks) {
  // Each rank has a link of its own.
  expect_advice({{1, 50, 1, 1}, {2, 99, 0.98, 1}}, {"uploads of 2 ranks", "use all"});
  // Neighbours share a switch: the total grows with every second rank.
  expect_advice({{1, 25, 1, 1}, {2, 26, 0.5, 0.5}, {3, 50, 0.5, 1}, {4, 51, 0.5, 0.5}},
                {"from 2 ranks", "0.50", "more than 3 ranks"});
  // The rest of the ranks keep their rate.
  expect_advice({{1, 25, 1, 1}, {2, 50, 1, 1}, {3, 51, 0.5, 1}}, {"from 3 ranks", "PCIe switch"});
  // The memory of the host serves two ranks.
  expect_advice({{1, 50, 1, 1}, {2, 90, 0.9, 0.9}, {3, 92, 0.6, 0.6}, {4, 91, 0.45, 0.46}},
                {"from 3 ranks", "memory of the host", "more than 2 ranks"});
  // All ranks lose a little.
  expect_advice({{1, 50, 1, 1}, {2, 80, 0.8, 0.8}}, {"from 2 ranks", "still grows"});
}

}  // namespace
}  // namespace shardstream::experiments::machine
