// How ranks agree, on any number of them.
#include "support/session.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <new>

#include "ranks/cpus.hpp"
#include "ranks/session.hpp"
#include "ranks/situation.hpp"
#include "runtime/provenance.hpp"

namespace shardstream {
namespace {

using ranks::AgreedError;
using test::session;

TEST(Session, KnowsItsRanks) {
  EXPECT_GE(session().rank(), 0);
  EXPECT_LT(session().rank(), session().size());
  EXPECT_EQ(session().local_size(), session().size());  // tests run on one host
  EXPECT_EQ(session().local_rank(), session().rank());
  EXPECT_FALSE(session().host().empty());
}

TEST(Session, SuccessOnAllRanksThrowsNothing) {
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
      EXPECT_EQ(error.prints(), session().rank() == bad);
      const std::string wanted = "rank " + std::to_string(bad) + " cannot";
      EXPECT_EQ(std::string(error.what()) == wanted, error.prints());
    }
  }
}

/// The launcher's mask is left as it was found, for the tests that follow.
TEST(Places, EachRankIsBoundToCpusOfItsOwn) {
  const ranks::Cpus granted = ranks::granted_cpus();
  Log log;
  for (const bool bind : {false, true}) {
    const ranks::Placement plan =
        ranks::take_places(session(), ranks::observe(session()), {.bind = bind}, log);
    const auto mine = plan.places.at(static_cast<std::size_t>(session().rank()));
    EXPECT_EQ(ranks::granted_cpus(), mine.cpus);
    EXPECT_TRUE(bind || mine.cpus == granted);
    const auto masks = session().gather(ranks::granted_cpu_list());
    const bool separate = bind && granted.size() >= masks.size();
    for (std::size_t r = 0; r < masks.size(); ++r) {
      EXPECT_EQ(masks[r], ranks::list_of(plan.places[r].cpus));
      if (separate && static_cast<int>(r) != session().rank()) {
        EXPECT_EQ(ranks::common(plan.places[r].cpus, mine.cpus), ranks::Cpus{});
      }
    }
    ASSERT_EQ(ranks::bind_to(granted), "");
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

/// One with padding, so that elements are not their fields' bytes one after another.
struct Numbered {
  std::int8_t rank;
  std::int64_t number;
  bool operator==(const Numbered&) const = default;
};

/// 100 000 more on each rank, and none on rank 0.
std::vector<Numbered> numbered(int rank) {
  std::vector<Numbered> all;
  for (std::int64_t i = 0; i < rank * 100000; ++i) {
    all.push_back({static_cast<std::int8_t>(rank), i});
  }
  return all;
}

TEST(Session, GathersStructsOfRanksThatHaveMoreOrFewer) {
  std::vector<Numbered> expected;
  for (int rank = 0; rank < session().size(); ++rank) {
    const auto theirs = numbered(rank);
    expected.insert(expected.end(), theirs.begin(), theirs.end());
  }
  const auto mine = numbered(session().rank());
  EXPECT_TRUE(session().gather(mine) == expected);
  const auto collected = session().collect(mine);
  EXPECT_TRUE(session().rank() == 0 ? collected == expected : collected.empty());
  EXPECT_TRUE(session().gather(std::vector<Numbered>()).empty());
}

/// Each rank has as many rows as its number.
TEST(GatherTable, KeepsEveryBit) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto odd_nan = std::bit_cast<double>(std::uint64_t{0xFFF8'0000'DEAD'BEEF});
  const std::vector<std::int64_t> integers = {INT64_MIN, -1, (std::int64_t{1} << 53) + 1,
                                              INT64_MAX};
  const std::vector<double> reals = {odd_nan, -infinity, -0.0, 5e-324};
  const std::vector<std::string> texts = {"", std::string("a\tb\n\0c", 6), "\xff", "é"};
  Table mine(
      "t", {{"i", ColumnType::integer, "B"}, {"text", ColumnType::text}, {"x", ColumnType::real}});
  for (int row = 0; row < session().rank(); ++row) {
    const auto n = static_cast<std::size_t>(session().rank() + row) % 4;
    mine.add({integers[n], texts[n], reals[n]});
  }
  const Table all = ranks::gather(session(), mine);
  EXPECT_EQ(all.name(), "t");
  ASSERT_EQ(all.columns().size(), 4U);
  EXPECT_EQ(all.columns()[0].name, "rank");
  EXPECT_EQ(all.columns()[1].unit, "B");
  const auto ranks = static_cast<std::size_t>(session().size());
  ASSERT_EQ(all.rows().size(), ranks * (ranks - 1) / 2);
  std::size_t row = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < rank; ++i, ++row) {
      const Row here = all.rows()[row];
      const std::size_t n = (rank + i) % 4;
      EXPECT_EQ(here.get<std::int64_t>("rank"), static_cast<std::int64_t>(rank));
      EXPECT_EQ(here.get<std::int64_t>("i"), integers[n]);
      EXPECT_EQ(here.get<std::string>("text"), texts[n]);
      EXPECT_EQ(std::bit_cast<std::uint64_t>(here.get<double>("x")),
                std::bit_cast<std::uint64_t>(reals[n]));
    }
  }
}

TEST(Situation, IsGatheredAsItIs) {
  const auto of_rank = [](int rank) {
    ranks::Situation one;
    one.host = "node" + std::to_string(rank);
    if (rank == 0) return one;
    one.cpus = ranks::cpus_of("0,32,1,33");
    one.host_cpus = rank;
    one.built_with_cuda = true;
    one.gpus = {{"GPU-1", "", "", -1, {}}, {"GPU-2", "0000:1b:00.0", "a GPU", 3, {4, 5}}};
    one.problem = "two\nlines";
    one.environment = {"CUDA_VISIBLE_DEVICES=0,1", "SLURM_GPU_BIND="};
    return one;
  };
  const auto all = ranks::gather(session(), of_rank(session().rank()));
  ASSERT_EQ(all.size(), static_cast<std::size_t>(session().size()));
  for (int rank = 0; rank < session().size(); ++rank) {
    const ranks::Situation& read = all[static_cast<std::size_t>(rank)];
    const ranks::Situation one = of_rank(rank);
    EXPECT_EQ(read.host, one.host);
    EXPECT_EQ(read.cpus, one.cpus);
    EXPECT_EQ(read.host_cpus, one.host_cpus);
    EXPECT_EQ(read.built_with_cuda, one.built_with_cuda);
    EXPECT_EQ(read.problem, one.problem);
    EXPECT_EQ(read.environment, one.environment);
    ASSERT_EQ(read.gpus.size(), one.gpus.size());
    for (std::size_t i = 0; i < one.gpus.size(); ++i) {
      EXPECT_EQ(read.gpus[i].uuid, one.gpus[i].uuid);
      EXPECT_EQ(read.gpus[i].pci, one.gpus[i].pci);
      EXPECT_EQ(read.gpus[i].name, one.gpus[i].name);
      EXPECT_EQ(read.gpus[i].numa_node, one.gpus[i].numa_node);
      EXPECT_EQ(read.gpus[i].cpus, one.gpus[i].cpus);
    }
  }
}

}  // namespace
}  // namespace shardstream
