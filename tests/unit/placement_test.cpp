// Which GPU a rank binds, from what it sees: pure arithmetic.
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::runtime {
namespace {

Sight sight(int gpus, int local_rank, int local_ranks) {
  return {.built_with_cuda = true,
          .gpus = gpus,
          .problem = "",
          .local_rank = local_rank,
          .local_ranks = local_ranks};
}

std::string complaint(const std::string& wanted, const Sight& seen) {
  try {
    choose_gpu(wanted, seen);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(ChooseGpu, TheLocalRanks) {
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(choose_gpu("auto", sight(4, rank, 4)), rank);
  EXPECT_EQ(choose_gpu("cuda", sight(4, 1, 2)), 1);
}

TEST(ChooseGpu, TheOnlyOneThatTheLauncherShows) {
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(choose_gpu("auto", sight(1, rank, 4)), 0);
}

TEST(ChooseGpu, TheHostIfThereIsNone) {
  EXPECT_EQ(choose_gpu("auto", sight(0, 0, 1)), -1);
}

TEST(ChooseGpu, RefusalsNameTheRemedy) {
  EXPECT_NE(complaint("cuda", sight(0, 0, 1)).find("--device.backend host"), std::string::npos);
  EXPECT_NE(complaint("auto", sight(2, 2, 3)).find("3 ranks on this host see 2 GPUs"),
            std::string::npos);
  Sight broken = sight(0, 0, 1);
  broken.problem = "cudaErrorInsufficientDriver";
  EXPECT_NE(complaint("auto", broken).find("cudaErrorInsufficientDriver"), std::string::npos);
}

TEST(CheckBindings, OneGpuForOneRankAndOneBackendForAll) {
  const auto check = [](std::vector<Binding> bindings) { check_bindings(bindings); };
  EXPECT_NO_THROW(check({{"a", "cuda", "GPU-1"}, {"a", "cuda", "GPU-2"}, {"b", "cuda", "GPU-1"}}));
  EXPECT_NO_THROW(check({{"a", "host", ""}, {"a", "host", ""}}));
  EXPECT_THROW(check({{"a", "cuda", "GPU-1"}, {"a", "cuda", "GPU-1"}}), UsageError);
  EXPECT_THROW(check({{"a", "cuda", "GPU-1"}, {"b", "host", ""}}), UsageError);
}

}  // namespace
}  // namespace shardstream::runtime
