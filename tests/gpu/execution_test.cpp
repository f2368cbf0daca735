// Experiments on execution on a GPU.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <ranges>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/catalogue.hpp"
#include "experiments/context.hpp"
#include "experiments/execution/occupancy_model.hpp"
#include "experiments/gpu.hpp"
#include "support/experiments.hpp"
#include "support/session.hpp"

namespace shardstream::experiments {
namespace {

/// The calculator's model gives the blocks that CUDA predicts, and no more whole ones are seen.
TEST(Execution, HasThePredictedBlocksOnAMultiprocessor) {
  const test::BenchEnd ended = test::run_bench({named("occupancy")});
  EXPECT_EQ(ended.code, ExitCode::done);
  if (test::session().rank() != 0) return;
  const report::ExperimentResult& result = ended.results.at("occupancy");
  ASSERT_EQ(result.state, "measured") << result.message;
  cudaDeviceProp gpu{};
  check(cudaGetDeviceProperties(&gpu, current_gpu()), "cudaGetDeviceProperties");
  const std::string capability = std::to_string(gpu.major) + "." + std::to_string(gpu.minor);
  const auto* const on = execution::find_multiprocessor(capability);
  if (on == nullptr) GTEST_SKIP() << "the model does not know compute capability " << capability;
  for (const Row& row : result.table.rows()) {
    const auto number = [&](const char* column) {
      return static_cast<unsigned>(row.get<std::int64_t>(column));
    };
    const execution::Block block{number("threads"), number("registers"), number("shared")};
    EXPECT_EQ(execution::residency(*on, block).blocks(), number("blocks"))
        << block.threads << " threads, " << block.registers << " registers, " << block.shared
        << " B";
    EXPECT_LE(number("seen"), number("blocks"));
    EXPECT_GE(number("seen"), 1U);
    EXPECT_GE(number("in_part"), number("seen"));
  }
}

TEST(Execution, IsMeasured) {
  const std::vector<Experiment> experiments = {named("hiding"), named("barriers"),
                                               named("divergence")};
  const test::BenchEnd ended = test::run_bench(experiments);
  EXPECT_EQ(ended.code, ExitCode::done);
  if (test::session().rank() != 0) return;
  for (const Experiment& each : experiments) {
    const report::ExperimentResult& result = ended.results.at(std::string(each.name));
    EXPECT_EQ(result.state, "measured") << result.name << ": " << result.message;
  }
  std::map<std::string, double> times;  // of divergence
  for (const Row& row : ended.results.at("divergence").table.rows()) {
    times[row.get<std::string>("case")] = row.get<double>("time");
  }
  EXPECT_GT(times.at("8 ways by lane"), 2 * times.at("8 ways by warp"));
}

/// Work in the legacy default stream lies between kernels of blocking streams, but not between
/// those of non-blocking streams.
TEST(Execution, FindsTheCallsThatKeepKernelsApart) {
  const test::BenchEnd ended = test::run_bench({named("serialising")});
  EXPECT_EQ(ended.code, ExitCode::done);
  if (test::session().rank() != 0) return;
  const report::ExperimentResult& result = ended.results.at("serialising");
  ASSERT_EQ(result.state, "measured") << result.message;
  std::map<std::pair<std::string, std::string>, std::string> found;  // by call and streams
  for (const Row& row : result.table.rows()) {
    if (row.get<std::string>("remark").starts_with("no conclusion")) GTEST_SKIP() << "a tool";
    found[{row.get<std::string>("between"), row.get<std::string>("streams")}] =
        row.get<std::string>("kernels");
  }
  EXPECT_EQ(found.size(), 28U);
  for (const char* const streams : {"blocking", "non-blocking"}) {
    EXPECT_EQ((found[{"nothing", streams}]), "overlapped");
    EXPECT_EQ((found[{"kernel, per-thread default stream", streams}]), "overlapped");
  }
  EXPECT_EQ((found[{"kernel, legacy default stream", "blocking"}]), "serialised");
  EXPECT_EQ((found[{"kernel, legacy default stream", "non-blocking"}]), "overlapped");
}

/// The experiment checks the number of sectors of each pattern against the indices.
TEST(Execution, GathersAndScattersEveryPattern) {
  int l2 = 0;
  check(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, current_gpu()),
        "cudaDeviceGetAttribute");
  if (4 * std::int64_t{l2} > std::int64_t{256} << 20) GTEST_SKIP() << "the L2 cache is large";
  const test::BenchEnd ended = test::run_bench({named("gather")}, {{"gather.size", "256MiB"}});
  EXPECT_EQ(ended.code, ExitCode::done);
  if (test::session().rank() != 0) return;
  const report::ExperimentResult& result = ended.results.at("gather");
  ASSERT_EQ(result.state, "measured") << result.message;
  EXPECT_EQ(std::ranges::size(result.table.rows()),
            36U * static_cast<unsigned>(test::session().size()));
}

TEST(Execution, HasTheSmallestAndTheLargestCarveout) {
  const test::BenchEnd ended = test::run_bench({named("carveout")});
  EXPECT_EQ(ended.code, ExitCode::done);
  if (test::session().rank() != 0) return;
  const report::ExperimentResult& result = ended.results.at("carveout");
  ASSERT_EQ(result.state, "measured") << result.message;
  std::map<std::string, std::set<std::int64_t>> percents;  // by kernel
  for (const Row& row : result.table.rows()) {
    percents[row.get<std::string>("kernel")].insert(row.get<std::int64_t>("carveout"));
  }
  ASSERT_EQ(percents.size(), 2U);
  for (const auto& [kernel, found] : percents) {
    EXPECT_LE(*found.begin(), 50) << kernel;  // the smallest one of compute capability 7.5
    EXPECT_EQ(*found.rbegin(), 100) << kernel;
  }
}

/// Ways that need a newer GPU than this one have no rows.
TEST(Execution, LaunchesKernelsInAllWays) {
  const test::BenchEnd ended = test::run_bench({named("concurrency")}, {{"concurrency.most", "4"}});
  EXPECT_EQ(ended.code, ExitCode::done);
  if (test::session().rank() != 0) return;
  const report::ExperimentResult& result = ended.results.at("concurrency");
  ASSERT_EQ(result.state, "measured") << result.message;
  cudaDeviceProp gpu{};
  check(cudaGetDeviceProperties(&gpu, current_gpu()), "cudaGetDeviceProperties");
  std::set<std::string> ways;
  for (const Row& row : result.table.rows()) {
    const auto way = row.get<std::string>("way");
    ways.insert(way);
    if (way.find("dependent") != std::string::npos) {
      EXPECT_EQ(row.get<std::int64_t>("at_once"), 1) << way;
    }
  }
  EXPECT_TRUE(ways.contains("loop: the host decides"));
  EXPECT_EQ(ways.contains("one stream, dependent launches"), gpu.major >= 9);
}

/// Each experiment verifies its kernels, so that a wrong one has no row.
TEST(Execution, OfReductionsWarpsAndLoopsIsRight) {
  const std::vector<const char*> names = {"reduction", "atomics", "warp", "unroll"};
  std::vector<Experiment> experiments;
  for (const char* const name : names) experiments.push_back(named(name));
  // The last block of threads is not full.
  const test::BenchEnd ended = test::run_bench(
      experiments, {{"reduction.count", std::to_string((1 << 20) + 4)}, {"atomics.size", "1MiB"}});
  EXPECT_EQ(ended.code, ExitCode::done);
  if (test::session().rank() != 0) return;
  for (const char* const name : names) {
    const report::ExperimentResult& result = ended.results.at(name);
    EXPECT_EQ(result.state, "measured") << name << ": " << result.message;
  }
  for (const Row& row : ended.results.at("unroll").table.rows()) {
    EXPECT_GT(row.get<double>("code"), 0) << "the program has a cubin for this GPU";
  }
  double first = 0;  // ms of the first rung
  for (const Row& row : ended.results.at("reduction").table.rows()) {
    if (row.get<std::int64_t>("rank") != 0) continue;
    const double time = row.get<double>("time");
    if (first <= 0) first = time;
    EXPECT_NEAR(row.get<double>("total_factor") * time, first, 1e-9 * first);
  }
}

}  // namespace
}  // namespace shardstream::experiments
