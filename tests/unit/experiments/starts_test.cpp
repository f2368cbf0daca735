// The starts of processes that the experiment `startup` compares.
#include "experiments/machine/starts.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "support/errors.hpp"

namespace shardstream::experiments::machine {
namespace {

constexpr StartFacts two_gpus = {
    .has_open_mpi = true, .has_gpu = true, .has_nccl = true, .visible_gpus = 2};

TEST(Starts, FollowTheOneThatTheyAreComparedWith) {
  for (const bool quick : {false, true}) {
    std::set<std::pair<std::string_view, std::string_view>> before;
    for (const Start& start : possible_starts(two_gpus, quick)) {
      const bool compares = !start.compared_with.empty();
      EXPECT_TRUE(!compares || before.contains({start.part, start.compared_with})) << start.setting;
      EXPECT_TRUE(before.insert({start.part, start.setting}).second) << start.setting;
      EXPECT_EQ(stages_of(start, two_gpus).front(), Stage::process);
    }
  }
}

TEST(Starts, AreThoseThatTheMachineAllows) {
  const auto parts = [](const StartFacts& facts, bool quick) {
    std::map<std::string_view, int> counts;
    for (const Start& start : possible_starts(facts, quick)) ++counts[start.part];
    return counts;
  };
  using Counts = std::map<std::string_view, int>;
  StartFacts facts = two_gpus;
  EXPECT_EQ(parts(facts, false), (Counts{{"all", 1}, {"MPI", 3}, {"GPU", 5}, {"NCCL", 4}}));
  EXPECT_EQ(parts(facts, true), (Counts{{"all", 1}, {"GPU", 4}}));
  facts.visible_gpus = 1;
  facts.has_open_mpi = facts.has_nccl = false;
  EXPECT_EQ(parts(facts, false), (Counts{{"all", 1}, {"GPU", 4}}));
  EXPECT_EQ(stages_of(possible_starts(facts, false)[0], facts).back(), Stage::kernel);
  facts.has_gpu = false;
  EXPECT_EQ(parts(facts, false), (Counts{{"all", 1}}));
  EXPECT_EQ(stages_of(possible_starts(facts, false)[0], facts),
            (std::vector{Stage::process, Stage::mpi}));
}

TEST(Starts, HaveStagesWithNames) {
  for (const std::string_view word : stage_words) EXPECT_EQ(word_of(stage_named(word)), word);
  EXPECT_THROW((void)stage_named("lunch"), Error);
}

TEST(Starts, ThatChangeNothingAreFound) {
  const std::vector<Start> starts = {
      {.part = "x", .setting = "base", .environment = {"A=1"}},
      {.part = "x", .setting = "other", .compared_with = "base", .environment = {"A=2", "B=2"}},
      {.part = "x", .setting = "more", .compared_with = "other", .environment = {"A=2", "B=3"}}};
  EXPECT_FALSE(changes_nothing(starts[0], starts, {"A=1"}));         // it is compared with none
  EXPECT_FALSE(changes_nothing(starts[1], starts, {"A=2", "B=2"}));  // base has A=1
  EXPECT_FALSE(changes_nothing(starts[2], starts, {"B=3"}));         // other has B=2
  const std::vector<Start> nccl = {
      {.part = "x", .setting = "base"},
      {.part = "x", .setting = "off", .compared_with = "base", .environment = {"A=0"}}};
  EXPECT_TRUE(changes_nothing(nccl[1], nccl, {"A=1", "AB=1", "A=0"}));
  EXPECT_FALSE(changes_nothing(nccl[1], nccl, {"A=0", "A=1"}));
  EXPECT_FALSE(changes_nothing(nccl[1], nccl, {"AB=0"}));
}

TEST(Starts, AreComparedByMediansUnlessTheyOverlap) {
  const auto words = [](std::vector<double> own, std::vector<double> other) {
    return words_on_saving(summarize(std::move(own)), summarize(std::move(other)), "eager");
  };
  EXPECT_EQ(words({400, 410, 390}, {650, 655, 700}), "saves 255 ms of 655 ms (eager)");
  EXPECT_EQ(words({900}, {600}), "takes 300 ms more than 600 ms (eager)");
  EXPECT_TRUE(test::names(words({400, 500, 690}, {650, 655, 700}), "no difference", "eager"));
  EXPECT_TRUE(test::names(words({590}, {600}), "no difference"));  // less than 3 %
}

TEST(Starts, AddTheStagesThatWereMeasured) {
  const double none = std::nan("");
  const StageTimes one = {10, none, 100, 200, none, 30, none},
                   two = {20, none, 300, 600, none, 10, none};
  EXPECT_EQ(total(one), 340);
  constexpr std::uint64_t ms = 1'000'000;
  const StageTimes told = times_of(7 * ms, {Stage::process, Stage::context},
                                   {9 * ms, 9 * ms, 9 * ms, 12 * ms, 17 * ms});
  EXPECT_EQ(told[0], 2);
  EXPECT_EQ(told[3], 5);
  EXPECT_EQ(total(told), 7);
  const StageTimes middle = medians({one, two, two});
  EXPECT_EQ(middle[0], 20);
  EXPECT_TRUE(std::isnan(middle[1]));
  EXPECT_EQ(middle[3], 600);
  EXPECT_TRUE(test::names(words_on_longest(one), "context", "59 %"));
  EXPECT_TRUE(test::names(words_on_serial_part(1000), "1.00 s", "5 %", "19 s"));
  EXPECT_TRUE(test::names(words_on_persistence("off"), "nvidia-smi -pm 1"));
  EXPECT_NE(words_on_persistence("on"), words_on_persistence(""));
}

}  // namespace
}  // namespace shardstream::experiments::machine
