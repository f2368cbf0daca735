// The watchdog while nothing is wrong. tests/e2e/hanging_rank.py tests hanging and dead ranks.
#include "watchdog/watchdog.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "support/session.hpp"

namespace shardstream::watchdog {
namespace {

using test::session;
using namespace std::chrono_literals;

/// The text written to a log so far.
std::string contents_of(std::FILE* file) {
  std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  const std::size_t got = std::fread(text.data(), 1, text.size(), file);
  return text.substr(0, got);
}

TEST(Watchdog, IsSilentWhileOneRankMoves) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  Log log("", file);
  {
    const Watchdog watchdog(session(), 1.0, log);
    // The last rank takes longer than the time without movement, and the others wait for it.
    if (session().rank() == session().size() - 1) {
      for (std::uint64_t i = 0; i < 20; ++i) {
        session().heartbeat().step("nap", i);
        std::this_thread::sleep_for(100ms);
      }
    }
    session().barrier();
  }
  EXPECT_EQ(contents_of(file), "");
  std::fclose(file);
}

TEST(Watchdog, LetsRanksGoOneByOne) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  Log log("", file);
  for (int first = 0; first < session().size(); ++first) {
    {
      const Watchdog watchdog(session(), 60.0, log);
      session().barrier();
      if (session().rank() != first) std::this_thread::sleep_for(300ms);
    }
    session().barrier();
  }
  EXPECT_EQ(contents_of(file), "");
  std::fclose(file);
}

TEST(Watchdog, StandsDownOnce) {
  Log log;
  {
    Watchdog watchdog(session(), 60.0, log);
    watchdog.stand_down();
    watchdog.stand_down();
    session().barrier();
  }
  session().barrier();
}

}  // namespace
}  // namespace shardstream::watchdog
