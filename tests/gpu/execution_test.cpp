// Experiments on execution on a GPU.
#include <gtest/gtest.h>

#include <map>
#include <string>
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
                                               named("divergence"), named("scheduling")};
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

}  // namespace
}  // namespace shardstream::experiments
