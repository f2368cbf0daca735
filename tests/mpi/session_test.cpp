// How ranks agree, on any number of them.
#include "mpi/session.hpp"

#include <gtest/gtest.h>

#include "launch/affinity.hpp"
#include "launch/situation.hpp"
#include "runtime/provenance.hpp"

namespace shardstream {
namespace {

using launch::AgreedError;
using test::session;

TEST(Session, KnowsItsRanks) {
  EXPECT_GE(session().rank(), 0);
  EXPECT_LT(session().rank(), session().size());
  EXPECT_EQ(session().local_size(), session().size());  // tests run on one host
  EXPECT_EQ(session().local_rank(), session().rank());
  EXPECT_FALSE(session().host().empty());
}

TEST(Session, WhatSucceedsEverywhereIsSilent) {
  int calls = 0;
  session().collectively([&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

/// Whatever rank fails, all throw the same code, and the lowest that failed speaks.
TEST(Session, AnErrorOfAnyRankIsEveryRanks) {
  for (int bad = 0; bad < session().size(); ++bad) {
    try {
      session().collectively([&] {
        if (session().rank() >= bad) {
          throw UsageError("rank " + std::to_string(session().rank()) + " cannot");
        }
      });
      FAIL() << "no rank threw";
    } catch (const AgreedError& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_EQ(error.speaks(), session().rank() == bad);
      const std::string wanted = "rank " + std::to_string(bad) + " cannot";
      EXPECT_EQ(std::string(error.what()) == wanted, error.speaks());
    }
  }
}

/// The launcher's mask is left as it was found, for the tests that follow.
TEST(Places, EachRankIsBoundToCpusOfItsOwn) {
  const launch::Cpus granted = launch::granted_cpus();
  Log log;
  for (const bool bind : {false, true}) {
    const launch::Plan plan =
        launch::take_places(session(), launch::observe(session()), {.bind = bind}, log);
    const auto mine = plan.places.at(static_cast<std::size_t>(session().rank()));
    EXPECT_EQ(launch::granted_cpus(), mine.cpus);
    EXPECT_TRUE(bind || mine.cpus == granted);
    const auto masks = session().gather(launch::granted_cpu_list());
    const bool apart = bind && granted.size() >= masks.size();
    for (std::size_t r = 0; r < masks.size(); ++r) {
      EXPECT_EQ(masks[r], launch::list_of(plan.places[r].cpus));
      if (apart && static_cast<int>(r) != session().rank()) {
        EXPECT_EQ(launch::common(plan.places[r].cpus, mine.cpus), launch::Cpus{});
      }
    }
    ASSERT_EQ(launch::bind_to(granted), "");
  }
}

TEST(Session, AForeignExceptionIsAFailure) {
  try {
    session().collectively([] { throw std::bad_alloc(); });
    FAIL() << "nothing was thrown";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.code(), ExitCode::failed);
  }
}

TEST(Session, GathersTextsOfAnyLengthInRankOrder) {
  const auto text = [](int rank) {
    return std::string(static_cast<std::size_t>(rank * 1000), 'x');
  };
  const auto texts = session().gather(text(session().rank()));
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(session().size()));
  for (int rank = 0; rank < session().size(); ++rank) {
    EXPECT_EQ(texts[static_cast<std::size_t>(rank)], text(rank));
  }
}

TEST(Session, GathersNumbersAndFindsTheGreatest) {
  const double mine = session().rank() * 1.5;
  const auto all = session().gather(std::vector<double>{mine, -mine});
  ASSERT_EQ(all.size(), 2U * static_cast<std::size_t>(session().size()));
  for (int rank = 0; rank < session().size(); ++rank) {
    EXPECT_EQ(all[static_cast<std::size_t>(2 * rank)], rank * 1.5);
  }
  EXPECT_EQ(session().max(mine), (session().size() - 1) * 1.5);
}

TEST(Session, BroadcastsRankZeros) {
  EXPECT_EQ(session().broadcast(session().rank() == 0 ? "from 0" : "ignored"), "from 0");
  EXPECT_EQ(session().broadcast(""), "");
  const std::string uuid = runtime::make_run_uuid(session());
  EXPECT_EQ(uuid.size(), 36U);
  EXPECT_EQ(session().broadcast(uuid), uuid);
  EXPECT_NE(runtime::make_run_uuid(session()), uuid);
}

TEST(Session, CollectsBytesOnRank0) {
  const std::string mine(static_cast<std::size_t>(session().rank()) * 100000, 'x');
  const auto all = session().collect(mine + '\0');
  ASSERT_EQ(all.size(), session().rank() == 0 ? static_cast<std::size_t>(session().size()) : 0U);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    EXPECT_EQ(all[rank], std::string(rank * 100000, 'x') + '\0');
  }
}

}  // namespace
}  // namespace shardstream
