// The end of experiments on all ranks of the host backend: turns, agreement, files, a slow rank,
// and missing hardware. tests/gpu/bench_test.cpp tests the loss of a GPU's context.
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <regex>
#include <string>
#include <tuple>

#include "cli/commands.hpp"
#include "comm/communicator.hpp"
#include "core/units.hpp"
#include "device/buffer.hpp"
#include "experiments/bench.hpp"
#include "experiments/incomplete.hpp"
#include "kernels/kernel.hpp"
#include "support/experiments.hpp"
#include "support/session.hpp"

namespace shardstream::experiments {
namespace {

using Ended = test::BenchEnd;
using test::experiment;
using test::session;

Table rate_of(double rate) {
  Measurements rows({{"case", ColumnType::text}}, {"rate", ColumnType::real, "GB/s"});
  rows.add({"the only one"}, {rate, 0.99 * rate, 1.01 * rate}, 0.5, "as expected");
  return std::move(rows).table();
}

Table fine(Bench&) {
  return rate_of(2);
}

/// The last rank reaches `Percent` percent of the other ranks' rate.
template <int Percent>
Table slow(Bench& bench) {
  return rate_of(bench.rank() + 1 == bench.at_once() ? Percent / 100.0 : 1.0);
}

Table wrong(Bench& bench) {
  bench.verify(false, "one and one");
  return fine(bench);
}

Table broken(Bench&) {
  throw Error("a call has failed");
}

/// Fails on the last rank only.
Table broken_on_one(Bench& bench) {
  if (bench.rank() + 1 == bench.at_once()) throw Error("a call has failed");
  return fine(bench);
}

/// The last rank's own kernel is wrong, and the others' have not failed.
Table wrong_own_kernel_on_one(Bench& bench) {
  if (bench.rank() + 1 == bench.at_once()) throw Incomplete(Unverified("mine.cu:f"), fine(bench));
  return fine(bench);
}

/// Wrong on the last of several ranks; a failed call on the others.
Table wrong_on_one(Bench& bench) {
  return bench.rank() + 1 == bench.at_once() ? wrong(bench) : broken(bench);
}

/// Takes a size and measures it.
Table sized(Bench& bench) {
  return rate_of(static_cast<double>(bench.bytes("feed.size", {.of_host = 0.3})));
}

/// On the last rank alone.
Table rejected_on_one(Bench& bench) {
  if (bench.rank() + 1 == bench.at_once()) throw UsageError("feed.size: too large");
  return fine(bench);
}

Table lacking(Bench&) {
  throw NotAvailable("the machine has no such thing");
}

Table ranks_at_once(Bench& bench) {
  Measurements rows({{"at_once", ColumnType::integer, "ranks"}, {"rank_of", ColumnType::integer}},
                    {"rate", ColumnType::real, "GB/s"});
  rows.add({std::int64_t{bench.at_once()}, std::int64_t{bench.rank()}}, {2, 1, 3}, 0.5, "");
  return std::move(rows).table();
}

/// The sum of a value of each rank, by the communicator.
Table sum_of_ranks(Bench& bench) {
  device::Device& device = bench.device();
  comm::Communicator& communicator = bench.together().communicator;
  const device::Buffer<std::int64_t> host(device, device::Memory::pinned, 1);
  const device::Buffer<std::int64_t> values(device, device::Memory::device, 2);
  const auto stream = device.make_stream();
  host[0] = bench.rank() + 1;
  stream->upload(values.data(), host.data(), host.bytes());
  communicator.all_reduce(*stream, values.data(), values.data() + 1, 1, comm::SumType::i64);
  stream->download(host.data(), values.data() + 1, host.bytes());
  communicator.wait(*stream);
  return rate_of(static_cast<double>(host[0]));
}

/// The number of calls, their time on this rank, and the time of the slowest rank. The calls are
/// collective, and their times do not converge.
Table calls_in_step(Bench& bench) {
  std::int64_t calls = 0;
  const Timing timing = bench.sample([&] {
    bench.together().session.barrier();
    return static_cast<double>(++calls % 2 + bench.rank());
  });
  Measurements rows(
      {{"case", ColumnType::text}, {"calls", ColumnType::integer}, {"own", ColumnType::real}},
      {"rate", ColumnType::real, "GB/s"});
  const double own = timing.by_rank.at(static_cast<std::size_t>(bench.rank())).value;
  rows.add({"the only one", calls, own}, timing.seconds, 0.5, "");
  return std::move(rows).table();
}

/// On the last rank the work in agree() throws `E`; then the ranks would communicate.
template <class E>
Table agreed(Bench& bench) {
  bench.agree([&] {
    if (bench.rank() + 1 == bench.at_once()) throw E("the last rank says why");
  });
  return sum_of_ranks(bench);
}

Table wrong_together(Bench& bench) {
  bench.verify(bench.rank() + 1 < bench.at_once(), "one and one");
  return sum_of_ranks(bench);
}

Experiment together(const char* name, Table (*measure)(Bench&)) {
  Experiment made = experiment(name, measure);
  made.scope = Scope::all_ranks;
  made.needs.ranks = 2;
  return made;
}

Ended run(const std::vector<Experiment>& experiments,
          std::map<std::string, std::string> options = {}) {
  options.insert({{"device.backend", "host"}, {"launch.bind", "none"}});
  return test::run_bench(experiments, options);
}

TEST(Experiments, TakeTurns) {
  std::vector<Experiment> experiments;
  for (const auto& [name, turns] :
       {std::pair{"a", Turns::at_once}, {"b", Turns::one_by_one}, {"c", Turns::both}}) {
    experiments.push_back(experiment(name, ranks_at_once));
    experiments.back().turns = turns;
    experiments.back().figure.x = "at_once";
  }
  const Ended ended = run(experiments);
  EXPECT_EQ(ended.code, ExitCode::done);
  if (session().rank() != 0) return;
  const std::int64_t ranks = session().size();
  const auto expect_turns = [&](const char* name, const std::vector<std::int64_t>& expected) {
    const auto rows = ended.results.at(name).table.rows();
    ASSERT_EQ(rows.size(), expected.size() * static_cast<std::size_t>(ranks)) << name;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::int64_t at_once = expected[i % expected.size()];
      EXPECT_EQ(rows[i].get<std::int64_t>("at_once"), at_once) << name;
      EXPECT_EQ(rows[i].get<std::int64_t>("rank_of"),
                at_once == 1 ? 0 : static_cast<std::int64_t>(i / expected.size()))
          << name;
    }
  };
  expect_turns("a", {ranks});
  expect_turns("b", {1});
  expect_turns("c", ranks > 1 ? std::vector<std::int64_t>{1, ranks} : std::vector{ranks});
}

TEST(Experiments, FailAlone) {
  const Ended ended = run({experiment("a", wrong), experiment("b", broken),
                           experiment("c", lacking), experiment("d", fine)});
  EXPECT_EQ(ended.code, ExitCode::unverified);
  if (session().rank() != 0) return;
  EXPECT_EQ(ended.results.at("a").state, "wrong");
  EXPECT_EQ(ended.results.at("b").state, "failed");
  EXPECT_EQ(ended.results.at("c").state, "not available");
  EXPECT_NE(ended.results.at("c").message.find("no such thing"), std::string::npos);
  EXPECT_EQ(ended.results.at("d").state, "measured");
  const auto rows = ended.results.at("d").table.rows();
  EXPECT_EQ(rows.size(), static_cast<std::size_t>(session().size()));
  EXPECT_EQ(rows[0].get<double>("rate"), 2);
}

TEST(Experiments, KeepTheirRowsIfAnOwnKernelFails) {
  const Ended ended = run({experiment("a", wrong_own_kernel_on_one), experiment("b", fine)});
  EXPECT_EQ(ended.code, ExitCode::unverified);
  if (session().rank() != 0) return;
  const report::ExperimentResult& result = ended.results.at("a");
  EXPECT_EQ(result.state, "measured");
  EXPECT_EQ(result.table.rows().size(), static_cast<std::size_t>(session().size()));
  ASSERT_EQ(result.notes.size(), 1U);
  EXPECT_NE(result.notes.front().find("mine.cu:f"), std::string::npos);
  EXPECT_EQ(ended.results.at("b").state, "measured");
}

TEST(Experiments, ThatFailEndWithOneAndThoseThatLackSomethingWithZero) {
  EXPECT_EQ(run({experiment("a", fine), experiment("b", broken)}).code, ExitCode::failed);
  EXPECT_EQ(run({experiment("a", fine), experiment("b", lacking)}).code, ExitCode::done);
}

TEST(Experiments, ThatRejectAnOptionEndWithTwoUnlessAnotherOneIsWorse) {
  const Experiment a = experiment("a", fine), b = experiment("b", rejected_on_one);
  const Ended ended = run({b, a});
  EXPECT_EQ(ended.code, ExitCode::usage);
  EXPECT_EQ(run({b, experiment("c", lacking)}).code, ExitCode::usage);
  EXPECT_EQ(run({b, experiment("c", broken)}).code, ExitCode::failed);
  EXPECT_EQ(run({experiment("c", wrong), experiment("d", broken), b}).code, ExitCode::unverified);
  if (session().rank() != 0) return;
  EXPECT_EQ(ended.results.at("b").state, "rejected");
  EXPECT_NE(ended.results.at("b").message.find("feed.size"), std::string::npos);
  EXPECT_EQ(ended.results.at("a").state, "measured");
}

TEST(Experiments, EndAsOnTheRankWithTheWorstEndAndSayWhy) {
  const Ended ended = run({experiment("a", wrong_on_one)});
  EXPECT_EQ(ended.code, ExitCode::unverified);
  if (session().rank() != 0) return;
  EXPECT_EQ(ended.results.at("a").state, "wrong");
  EXPECT_NE(ended.results.at("a").message.find("one and one"), std::string::npos)
      << ended.results.at("a").message;
}

/// Half of the last size in a text, such as "34 GiB"; "" if there is none.
std::string half_of_last_size_in(const std::string& text) {
  static const std::regex size("([0-9]+) ([KMGT]?i?B)");
  std::string half;
  for (auto found = std::sregex_iterator(text.begin(), text.end(), size);
       found != std::sregex_iterator(); ++found) {
    half = std::to_string(parse_size((*found)[1].str() + (*found)[2].str()) / 2);
  }
  return half;
}

TEST(Experiments, RejectSizesBeyondMemoryAndNameOneThatFits) {
  const Ended rejected = run({experiment("a", sized)}, {{"feed.size", "10TiB"}});
  EXPECT_EQ(rejected.code, ExitCode::usage);
  const std::string message =
      session().broadcast(session().rank() == 0 ? rejected.results.at("a").message : std::string());
  EXPECT_NE(message.find("feed.size"), std::string::npos) << message;
  EXPECT_NE(message.find("10 TiB"), std::string::npos) << message;
  // Half of it, because other programs may have taken memory since.
  const Ended accepted =
      run({experiment("a", sized)}, {{"feed.size", half_of_last_size_in(message)}});
  EXPECT_EQ(accepted.code, ExitCode::done) << message;
}

TEST(Experiments, HalveADefaultUntilItFits) {
  const auto huge = [](Bench& bench) {
    return rate_of(static_cast<double>(bench.bytes("feed.size", {}, std::uint64_t{1} << 50)));
  };
  const Ended ended = run({experiment("a", huge)});
  EXPECT_EQ(ended.code, ExitCode::done);
  if (session().rank() != 0) return;
  const report::ExperimentResult& result = ended.results.at("a");
  const auto size = static_cast<std::uint64_t>(result.table.rows()[0].get<double>("rate"));
  EXPECT_TRUE(std::has_single_bit(size) && size < std::uint64_t{1} << 50) << size;
  ASSERT_EQ(result.notes.size(), 1U);
  EXPECT_NE(result.notes[0].find("feed.size"), std::string::npos) << result.notes[0];
}

/// Matrices of which 1000 x 1000 fit, with edges that are multiples of 10.
template <std::uint64_t Quick>
Table of_matrices(Bench& bench) {
  return rate_of(static_cast<double>(bench.edge("matmul.n", Quick, 10, 4, 4e6)));
}

TEST(Experiments, RejectMatricesBeyondMemoryAndNameAnEdgeThatFits) {
  for (const auto& [given, word] : {std::pair{"1001", "choose 1010"}, {"1010", "at most 1000"}}) {
    const Ended ended = run({experiment("a", of_matrices<500>)}, {{"matmul.n", given}});
    EXPECT_EQ(ended.code, ExitCode::usage);
    if (session().rank() != 0) continue;
    const std::string& message = ended.results.at("a").message;
    EXPECT_NE(message.find(word), std::string::npos) << message;
  }
  const Ended given = run({experiment("a", of_matrices<500>)}, {{"matmul.n", "1000"}});
  const Ended small = run({experiment("a", of_matrices<500>), experiment("b", of_matrices<2000>)});
  if (session().rank() != 0) return;
  const auto edge_of = [](const report::ExperimentResult& result) {
    return result.table.rows()[0].get<double>("rate");
  };
  EXPECT_EQ(edge_of(given.results.at("a")), 1000);
  EXPECT_EQ(edge_of(small.results.at("a")), 500) << "run_bench() is --quick";
  EXPECT_TRUE(small.results.at("a").notes.empty());
  EXPECT_EQ(edge_of(small.results.at("b")), 1000);
  EXPECT_EQ(small.results.at("b").notes.size(), 1U);
}

TEST(Experiments, WithoutTheirFileAreNotAvailable) {
  Experiment reader = experiment("a", fine);
  reader.needs.file = "plain-reads.file";
  const Ended ended = run({reader, experiment("b", fine)});
  EXPECT_EQ(ended.code, ExitCode::done);
  EXPECT_EQ(run({reader}, {{"plain-reads.file", "any"}}).code, ExitCode::done);
  if (session().rank() != 0) return;
  EXPECT_EQ(ended.results.at("a").state, "not available");
  EXPECT_NE(ended.results.at("a").message.find("--plain-reads.file"), std::string::npos);
}

TEST(Experiments, FailOnAllRanksIfTheyFailOnOne) {
  const Ended ended = run({experiment("a", broken_on_one), experiment("b", fine)});
  EXPECT_EQ(ended.code, ExitCode::failed);
  if (session().rank() != 0) return;
  const report::ExperimentResult& failed = ended.results.at("a");
  EXPECT_EQ(failed.state, "failed");
  EXPECT_EQ(std::ranges::size(failed.table.rows()), 0U);
  const std::string rank = "rank " + std::to_string(session().size() - 1);
  EXPECT_EQ(failed.message.starts_with(rank), session().size() > 1) << failed.message;
  EXPECT_EQ(ended.results.at("b").state, "measured");
}

TEST(Experiments, NameASlowRank) {
  const Ended ended = run({experiment("slow-one", slow<80>), experiment("even", slow<98>)});
  EXPECT_EQ(ended.code, ExitCode::done);
  if (session().rank() != 0) return;
  const std::string last = "rank " + std::to_string(session().size() - 1);
  const bool is_named = ended.warnings.find("slow-one: " + last) != std::string::npos;
  EXPECT_EQ(is_named, session().size() > 1) << ended.warnings;
  EXPECT_EQ(ended.warnings.find("even"), std::string::npos) << ended.warnings;
}

TEST(Experiments, SayWhatTheMachineLacks) {
  Experiment for_gpus = experiment("a", fine);
  for_gpus.run_host = nullptr;
  const Ended ended = run({for_gpus, experiment("b", fine)});
  EXPECT_EQ(ended.code, ExitCode::done);
  if (session().rank() != 0) return;
  const report::ExperimentResult& lacking = ended.results.at("a");
  EXPECT_EQ(lacking.state, "not available");
  EXPECT_NE(lacking.message.find(built_with_cuda ? "device.backend" : "CUDA"), std::string::npos)
      << lacking.message;
}

TEST(ExperimentsOfAllRanks, Communicate) {
  const Ended ended = run({together("sum", sum_of_ranks), experiment("alone", sum_of_ranks)});
  const bool several = session().size() > 1;
  EXPECT_EQ(ended.code, ExitCode::failed);  // of "alone", which must not communicate
  if (session().rank() != 0) return;
  EXPECT_EQ(ended.results.at("alone").state, "failed");
  const report::ExperimentResult& sum = ended.results.at("sum");
  EXPECT_EQ(sum.state, several ? "measured" : "not available");
  if (!several) {
    EXPECT_NE(sum.message.find("2 ranks"), std::string::npos) << sum.message;
    return;
  }
  const std::int64_t ranks = session().size();
  for (const Row& row : sum.table.rows()) {
    EXPECT_EQ(row.get<double>("rate"), static_cast<double>(ranks * (ranks + 1)) / 2);
  }
}

TEST(ExperimentsOfAllRanks, StopTogetherAndKnowTheTimeOfEachRank) {
  for (const char* const repetitions : {"auto", "7"}) {
    const Ended ended = run({together("steps", calls_in_step)}, {{"measure.repeat", repetitions}});
    EXPECT_EQ(ended.code, ExitCode::done);
    if (session().rank() != 0 || session().size() == 1) continue;
    const report::ExperimentResult& steps = ended.results.at("steps");
    const auto rows = steps.table.rows();
    ASSERT_EQ(rows.size(), static_cast<std::size_t>(session().size()));
    for (const Row& row : rows) {
      EXPECT_EQ(row.get<std::int64_t>("calls"), rows[0].get<std::int64_t>("calls"));
      EXPECT_EQ(row.get<double>("own") - rows[0].get<double>("own"),
                static_cast<double>(row.get<std::int64_t>("rank")));
      EXPECT_EQ(row.get<double>("rate"), rows.back().get<double>("own"));
    }
    // Timings of all ranks count once.
    EXPECT_EQ(steps.unconverged, std::string_view(repetitions) == "auto" ? 1 : 0);
  }
}

TEST(ExperimentsOfAllRanks, EndAlikeIfOneOfThemFindsAnError) {
  const Ended ended =
      run({together("lacking", agreed<NotAvailable>), together("rejected", agreed<UsageError>),
           together("broken", agreed<Error>), together("wrong", wrong_together),
           together("sum", sum_of_ranks)});
  const bool several = session().size() > 1;
  EXPECT_EQ(ended.code, several ? ExitCode::unverified : ExitCode::done);
  if (session().rank() != 0 || !several) return;
  const std::string last = "rank " + std::to_string(session().size() - 1);
  for (const auto& [name, state, word] : {std::tuple{"lacking", "not available", "says why"},
                                          {"rejected", "rejected", "says why"},
                                          {"broken", "failed", "says why"},
                                          {"wrong", "wrong", "one and one"},
                                          {"sum", "measured", ""}}) {
    const report::ExperimentResult& result = ended.results.at(name);
    EXPECT_EQ(result.state, state) << name;
    EXPECT_NE(result.message.find(word), std::string::npos) << result.message;
    EXPECT_EQ(result.message.starts_with(last), *word != '\0') << result.message;
  }
}

TEST(ExperimentsOfAllRanks, RejectSizesBeyondMemoryTogether) {
  const Ended ended = run({together("sized", sized)}, {{"feed.size", "10TiB"}});
  EXPECT_EQ(ended.code, session().size() > 1 ? ExitCode::usage : ExitCode::done);
}

}  // namespace
}  // namespace shardstream::experiments
