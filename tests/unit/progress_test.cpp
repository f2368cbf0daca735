#include "core/log.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace shardstream {
namespace {

using namespace std::chrono_literals;

std::string contents_of(std::FILE* file) {
  std::string text;
  std::rewind(file);
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  return text;
}

/// The seconds after which lines appear in a step of `total` seconds with an update each second.
std::vector<int> line_times(int total, bool enabled) {
  std::vector<int> times;
  std::FILE* const file = std::tmpfile();
  const auto start = Progress::Clock::now();
  Progress progress("working", total, enabled, file, start);
  long before = 0;
  for (int second = 0; second <= total; ++second) {
    progress.add(1, start + std::chrono::seconds(second));
    const long now = std::ftell(file);
    if (now != before) times.push_back(second);
    before = now;
  }
  std::fclose(file);
  return times;
}

TEST(Progress, LinesComeAfterFiveSecondsAndThenAtGrowingIntervals) {
  EXPECT_EQ(line_times(48, true), (std::vector{5, 15, 35}));
  EXPECT_EQ(line_times(3000, true), (std::vector{5, 15, 35, 75, 155, 315, 635, 1235, 1835, 2435}));
}

TEST(Progress, IsSilentUnlessEnabled) {
  EXPECT_EQ(line_times(100, false), std::vector<int>());
}

TEST(Progress, ALineShowsShareAndTime) {
  std::FILE* const file = std::tmpfile();
  const auto start = Progress::Clock::now();
  {
    Progress progress("multiplying", 4, true, file, start);
    progress.add(0.5, start + 1s);
    progress.add(0.5, start + 10s);
  }
  EXPECT_EQ(contents_of(file), "multiplying: 25 % after 10 s, 30 s left\n");
  std::fclose(file);
}

TEST(Progress, StepsShareOneObject) {
  std::FILE* const file = std::tmpfile();
  const auto start = Progress::Clock::now();
  {
    Progress progress("streaming", 20, true, file, start);
    for (int second = 1; second <= 8; ++second) {
      if (second == 7) progress.extend(12);  // one more step
      progress.add(1, start + std::chrono::seconds(second));
    }
    progress.add(16, start + 24s);
  }
  EXPECT_EQ(contents_of(file),
            "streaming: 25 % after 5 s, 15 s left\nstreaming: 75 % after 24 s, 8 s left\n");
  std::fclose(file);
}

TEST(Progress, ATotalMayBeUnknown) {
  std::FILE* const file = std::tmpfile();
  const auto start = Progress::Clock::now();
  {
    Progress progress("streaming", 0, true, file, start);
    progress.extend(3);
    progress.add(1, start + 4s);
    progress.add(1, start + 6s);
  }
  EXPECT_EQ(contents_of(file), "streaming: 6 s so far\n");
  std::fclose(file);
}

}  // namespace
}  // namespace shardstream
