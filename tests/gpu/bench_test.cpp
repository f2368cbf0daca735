// The end of experiments on a GPU: guards restore its state, sizes beyond its memory are rejected,
// and finished results are kept when the context is lost. That test must be the last one in this
// file, since nothing can use the GPU in this process afterwards. tests/mpi/bench_session_test.cpp
// has the tests without a GPU.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/catalogue.hpp"
#include "experiments/context.hpp"
#include "experiments/gpu.hpp"
#include "gpu/need_gpus.hpp"
#include "gpu/trap.hpp"
#include "support/experiments.hpp"
#include "support/session.hpp"

namespace shardstream::test {

std::optional<int> exit_code_without_hardware() {
  return exit_code_without_gpus(session().local_size());
}

}  // namespace shardstream::test

namespace shardstream::experiments {
namespace {

using Ended = test::BenchEnd;
using test::experiment;
using test::session;

Table fine(Bench&) {
  Measurements rows({{"case", ColumnType::text}}, {"rate", ColumnType::real, "GB/s"});
  rows.add({"the only one"}, {2, 1, 3}, 0.5, "as expected");
  return std::move(rows).table();
}

/// Loses the context of the last rank.
Table lost(Bench& bench) {
  if (bench.rank() + 1 != bench.at_once()) return fine(bench);
  const Gpu gpu(bench);
  test::trap({}, gpu.stream());
  check(cudaStreamSynchronize(gpu.stream()), "cudaStreamSynchronize");
  return fine(bench);
}

/// Work that waits for the device, so that a sample cannot be enqueued.
Table waiting(Bench& bench) {
  Gpu gpu(bench, 0.1);
  (void)gpu.time([&] { gpu.synchronize(); });
  return fine(bench);
}

std::size_t persisting_limit() {
  std::size_t limit = 0;
  check(cudaDeviceGetLimit(&limit, cudaLimitPersistingL2CacheSize), "cudaDeviceGetLimit");
  return limit;
}

TEST(Guards, RestoreLimitsAfterAnException) {
  const std::size_t before = persisting_limit();
  try {
    const LimitGuard guard(cudaLimitPersistingL2CacheSize, before + (std::size_t{1} << 20));
    EXPECT_NE(persisting_limit(), before);
    throw Error("in the middle");
  } catch (const Error&) {
  }
  EXPECT_EQ(persisting_limit(), before);
}

TEST(Guards, RemoveWindowsAfterAnException) {
  const device::cuda::StreamHandle stream(device::Priority::normal);
  const DeviceArray<float> hot(1 << 20);
  const auto bytes_of_window = [&] {
    cudaStreamAttrValue value{};
    check(cudaStreamGetAttribute(stream.get(), cudaStreamAttributeAccessPolicyWindow, &value),
          "cudaStreamGetAttribute");
    return value.accessPolicyWindow.num_bytes;
  };
  try {
    const LimitGuard limit(cudaLimitPersistingL2CacheSize, hot.bytes());
    cudaAccessPolicyWindow window{};
    window.base_ptr = hot.data();
    window.num_bytes = hot.bytes();
    window.hitRatio = 1;
    window.hitProp = cudaAccessPropertyPersisting;
    window.missProp = cudaAccessPropertyStreaming;
    const WindowGuard guard(stream.get(), window);
    EXPECT_EQ(bytes_of_window(), hot.bytes());
    window.num_bytes /= 2;
    guard.replace(window);
    EXPECT_EQ(bytes_of_window(), hot.bytes() / 2);
    throw Error("in the middle");
  } catch (const Error&) {
  }
  EXPECT_EQ(bytes_of_window(), 0U);
}

TEST(Guards, RestoreCarveoutsAfterAnException) {
  const auto carveout = [] {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, test::trap_kernel()), "cudaFuncGetAttributes");
    return attributes.preferredShmemCarveout;
  };
  const int before = carveout();
  try {
    const CarveoutGuard guard(test::trap_kernel(), 50);
    EXPECT_EQ(carveout(), 50);
    throw Error("in the middle");
  } catch (const Error&) {
  }
  EXPECT_EQ(carveout(), before);
}

TEST(Guards, OpenTheGateAfterAnException) {
  const device::cuda::StreamHandle stream(device::Priority::normal);
  Gate gate(Gate::usual_limit());
  try {
    const ClosedGateGuard closed(gate, stream.get());
    throw Error("in the middle");
  } catch (const Error&) {
  }
  check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  EXPECT_FALSE(gate.has_given_up());
}

TEST(Guards, TheGateGivesUpIfTheHostWaitsForItsStream) {
  const device::cuda::StreamHandle stream(device::Priority::normal);
  Gate gate(0.2);
  for (const bool waits : {true, false}) {
    {
      const ClosedGateGuard closed(gate, stream.get());
      if (waits) check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    }
    check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    EXPECT_EQ(gate.has_given_up(), waits);
  }
}

TEST(Guards, RestoreTheCurrentGpuAndPeerAccessAfterAnException) {
  if (visible_gpus() < 2) GTEST_SKIP() << "a second GPU is needed";
  int own = 0, current = -1;
  check(cudaGetDevice(&own), "cudaGetDevice");
  const int other = (own + 1) % visible_gpus();
  int reaches = 0;
  check(cudaDeviceCanAccessPeer(&reaches, own, other), "cudaDeviceCanAccessPeer");
  try {
    const CurrentGpuGuard guard(other);
    check(cudaGetDevice(&current), "cudaGetDevice");
    EXPECT_EQ(current, other);
    throw Error("in the middle");
  } catch (const Error&) {
  }
  check(cudaGetDevice(&current), "cudaGetDevice");
  EXPECT_EQ(current, own);
  if (reaches == 0) GTEST_SKIP() << "the GPUs have no path to each other";
  try {
    const PeerAccessGuard guard(other);
    EXPECT_EQ(cudaDeviceEnablePeerAccess(other, 0), cudaErrorPeerAccessAlreadyEnabled);
    (void)cudaGetLastError();
    throw Error("in the middle");
  } catch (const Error&) {
  }
  EXPECT_EQ(cudaDeviceDisablePeerAccess(other), cudaErrorPeerAccessNotEnabled);
  (void)cudaGetLastError();
}

TEST(Experiments, SayWhatTheGpuLacks) {
  Experiment later = experiment("a", fine), more = experiment("b", fine);
  later.needs.compute_capability = 999;
  more.needs.gpus = 1 + visible_gpus();
  const Ended ended = test::run_bench({later, more, experiment("c", fine)});
  EXPECT_EQ(ended.code, ExitCode::done);
  if (session().rank() != 0) return;
  for (const auto& [name, word] :
       {std::pair{"a", std::string("99.9")}, {"b", std::to_string(more.needs.gpus)}}) {
    const report::ExperimentResult& lacking = ended.results.at(name);
    EXPECT_EQ(lacking.state, "not available") << name;
    EXPECT_NE(lacking.message.find(word), std::string::npos) << lacking.message;
  }
  EXPECT_EQ(ended.results.at("c").state, "measured");
}

TEST(Experiments, WhoseWorkWaitsForTheGpuCannotBeTimed) {
  const Ended ended = test::run_bench({experiment("a", waiting), experiment("b", fine)});
  EXPECT_EQ(ended.code, ExitCode::failed);
  if (session().rank() != 0) return;
  EXPECT_EQ(ended.results.at("a").state, "failed");
  for (const char* const word : {"compute-sanitizer", "CUDA_LAUNCH_BLOCKING"}) {
    EXPECT_NE(ended.results.at("a").message.find(word), std::string::npos)
        << ended.results.at("a").message;
  }
  EXPECT_EQ(ended.results.at("b").state, "measured");
}

TEST(Experiments, OfTheLinkVerifyTheirAnswersForSmallSizes) {
  const Ended ended = test::run_bench(
      {named("batching"), named("zero-copy"), named("overlap"), named("timers"), named("returns")},
      {{"batching.item", "4"},
       {"zero-copy.size", "1MiB"},
       {"overlap.size", "1MiB"},
       {"returns.size", "128KiB"}});
  EXPECT_EQ(ended.code, ExitCode::done);
  for (const auto& [name, result] : ended.results) {
    EXPECT_EQ(result.state, "measured") << name << ": " << result.message;
  }
}

TEST(Experiments, FeedTheGpuFromEveryPlace) {
  const Ended ended = test::run_bench({named("feed")}, {{"feed.size", "96MiB"}});
  EXPECT_EQ(ended.code, ExitCode::done);
  if (session().rank() != 0) return;
  const report::ExperimentResult& result = ended.results.at("feed");
  EXPECT_EQ(result.state, "measured") << result.message;
  const int turns = session().size() > 1 ? 2 : 1;
  constexpr int cases = 7;  // five places and two ceilings
  EXPECT_EQ(std::ranges::size(result.table.rows()), cases * turns * session().size());
}

/// NCCL by a plain loop and as a run calls it, and staged MPI; links of all GPUs; managed memory,
/// and the processor's access to pinned memory.
TEST(Experiments, OfTheMachineVerifyTheirAnswersForSmallSizes) {
  const Ended ended = test::run_bench(
      {named("managed"), named("host-memory"), named("collectives"), named("contention")},
      {{"managed.size", "16MiB"},
       {"managed.most", "0.5"},
       {"host-memory.size", "4MiB"},
       {"collectives.most", "1MiB"},
       {"contention.size", "1MiB"}});
  EXPECT_EQ(ended.code, ExitCode::done);
  if (session().rank() != 0) return;
  for (const auto& [name, result] : ended.results) {
    const bool needs_ranks = name == "collectives" || name == "contention";
    if (name == "managed" && result.state == "not available") continue;
    EXPECT_EQ(result.state, needs_ranks && session().size() == 1 ? "not available" : "measured")
        << name << ": " << result.message;
  }
  std::set<std::string> ways;
  for (const Row& row : ended.results.at("collectives").table.rows()) {
    ways.insert(row.get<std::string>("way"));
  }
  EXPECT_TRUE(session().size() == 1 || ways.contains("MPI, staged"));
}

/// Each pair that a rank can measure has one row for each method and direction.
TEST(Experiments, CopyBetweenEachPairOfGpusOnce) {
  if (visible_gpus() < 2) GTEST_SKIP() << "a second GPU is needed";
  const Ended ended = test::run_bench({named("peer")}, {{"peer.size", "1MiB"}});
  if (session().rank() != 0) return;
  const report::ExperimentResult& result = ended.results.at("peer");
  if (result.state == "not available") GTEST_SKIP() << result.message;
  EXPECT_EQ(ended.code, ExitCode::done);
  ASSERT_EQ(result.state, "measured") << result.message;
  std::map<std::string, std::set<std::pair<std::string, std::string>>> pairs;  // by method
  for (const Row& row : result.table.rows()) {
    const auto &from = row.get<std::string>("from"), &to = row.get<std::string>("to");
    EXPECT_TRUE(pairs[row.get<std::string>("method")].emplace(from, to).second) << from << to;
  }
  int expected = 0;  // pairs, each in two directions; ranks have their own GPUs
  for (int rank = 0; rank < session().size(); ++rank) expected += visible_gpus() - 1 - rank;
  ASSERT_EQ(pairs.size(), 5U);
  for (const auto& [method, found] : pairs) {
    const int directions = method.starts_with("kernel") ? 1 : 2;
    EXPECT_EQ(found.size(), static_cast<std::size_t>(directions * expected)) << method;
  }
}

/// Every size and count that takes memory, but those with a maximum, which is checked before any
/// experiment begins. The ceilings are not needed before a size is rejected.
TEST(Experiments, RejectSizesBeyondMemory) {
  std::vector<Experiment> experiments;
  std::map<std::string, std::string> sizes;  // by key
  for (const Experiment* each : all()) {
    for (const OptionRow& row : each->options) {
      const bool is_memory = row.kind == OptionKind::size && row.key != "batching.item";
      if (!is_memory && row.key != "reduction.count" && row.key != "reduction-order.count")
        continue;
      if (!row.range.ends_with("..") || each->needs.gpus > visible_gpus()) continue;
      if (each->needs.ranks > session().size()) continue;
      experiments.push_back(*each);
      sizes[std::string(row.key)] = is_memory ? "1PiB" : "2^48";
    }
  }
  const Ended ended = test::run_bench(experiments, sizes);
  EXPECT_EQ(ended.code, ExitCode::usage);
  if (session().rank() != 0) return;
  EXPECT_GE(ended.results.size(), 10U);
  for (const auto& [name, result] : ended.results) {
    EXPECT_EQ(result.state, "rejected") << name;
    EXPECT_NE(result.message.find(name + "."), std::string::npos) << result.message;
  }
}

/// The smallest stream that the parser accepts is too short for the hot regions of large caches.
TEST(Experiments, RejectAStreamThatUsesItsHotRegionOnce) {
  int l2 = 0;
  check(cudaDeviceGetAttribute(&l2, cudaDevAttrMaxPersistingL2CacheSize, current_gpu()),
        "cudaDeviceGetAttribute");
  constexpr std::uint64_t stream = std::uint64_t{64} << 20;
  if (4 * static_cast<std::uint64_t>(l2) <= stream) GTEST_SKIP() << "the L2 cache is small";
  const Ended ended = test::run_bench({named("l2-window")}, {{"l2-window.stream", "64MiB"}});
  EXPECT_EQ(ended.code, ExitCode::usage);
  if (session().rank() != 0) return;
  const report::ExperimentResult& result = ended.results.at("l2-window");
  EXPECT_EQ(result.state, "rejected");
  EXPECT_NE(result.message.find("l2-window.stream"), std::string::npos) << result.message;
}

TEST(Experiments, GiveBackThePartOfTheCacheThatTheySetAside) {
  const std::size_t before = persisting_limit();
  const Ended ended = test::run_bench({named("l2-window")}, {{"l2-window.stream", "1GiB"}});
  EXPECT_EQ(persisting_limit(), before);
  if (session().rank() != 0) return;
  const report::ExperimentResult& result = ended.results.at("l2-window");
  if (result.state == "not available") GTEST_SKIP() << result.message;
  EXPECT_EQ(result.state, "measured") << result.message;
  std::set<std::string> varied;
  for (const Row& row : result.table.rows()) {
    const bool is_new = varied.insert(row.get<std::string>("varied")).second;
    if (is_new) {
      EXPECT_EQ(row.get<std::string>("policy"), "nothing set aside");
    }
  }
  EXPECT_EQ(varied.size(), 5U);
}

/// The other experiments of the group that have several ways to the same data.
TEST(Experiments, VerifyEachWayToSharedMemoryConstantsAndTextures) {
  const Ended ended =
      test::run_bench({named("async-copy"), named("constant"), named("texture"), named("latency")},
                      {{"latency.most", "16MiB"}});
  EXPECT_EQ(ended.code, ExitCode::done);
  if (session().rank() != 0) return;
  for (const auto& [name, result] : ended.results) {
    EXPECT_EQ(result.state, "measured") << name << ": " << result.message;
    for (const Row& row : result.table.rows()) {
      EXPECT_GE(row.get<double>("operations"), 0) << name;
      EXPECT_GE(row.get<double>("bytes"), 0) << name;
    }
  }
}

TEST(Experiments, ReadSlicesThroughBothCaches) {
  const Ended ended = test::run_bench({named("cache")}, {{"cache.most", "128MiB"}});
  EXPECT_EQ(ended.code, ExitCode::done);
  if (session().rank() != 0) return;
  std::map<std::string, std::set<std::int64_t>> slices;
  std::set<std::int64_t> multiprocessors;
  for (const Row& row : ended.results.at("cache").table.rows()) {
    const auto slice = row.get<std::int64_t>("slice");
    slices[row.get<std::string>("loads")].insert(slice);
    multiprocessors.insert(row.get<std::int64_t>("set") / slice);
  }
  EXPECT_EQ(multiprocessors.size(), 1U) << "each multiprocessor has a slice";
  EXPECT_EQ(slices["L1"], slices["L2"]);
  EXPECT_EQ(*slices["L1"].begin(), 64 << 10);
}

TEST(Experiments, KeepWhatWasFinishedWhenTheContextIsLost) {
  const Ended ended =
      test::run_bench({experiment("a", fine), experiment("b", lost), experiment("c", fine)});
  EXPECT_EQ(ended.code, ExitCode::failed);
  if (session().rank() != 0) return;
  EXPECT_EQ(ended.results.at("a").state, "measured");
  EXPECT_EQ(ended.results.at("b").state, "failed");
  EXPECT_EQ(ended.results.at("c").state, "not run");
  EXPECT_NE(ended.results.at("c").message.find("context"), std::string::npos);
}

}  // namespace
}  // namespace shardstream::experiments
