// The arithmetic of experiments on execution, without a GPU. If NVIDIA's cuda_occupancy.h is
// installed, the model of occupancy is compared with it.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "experiments/catalogue.hpp"
#include "experiments/execution/little.hpp"
#include "experiments/execution/occupancy_model.hpp"
#include "experiments/execution/start_order.hpp"
#include "experiments/execution/stays.hpp"
#include "experiments/execution/ways.hpp"

#if __has_include(<cuda_occupancy.h>)
#include <cuda_occupancy.h>
#endif

namespace shardstream::experiments::execution {
namespace {

unsigned blocks_on(const char* capability, const Block& block) {
  const Multiprocessor* const on = find_multiprocessor(capability);
  return on == nullptr ? 0 : residency(*on, block).blocks();
}

TEST(Occupancy, IsThatOfTheGuides) {
  EXPECT_EQ(blocks_on("7.0", {128, 37, 0}), 12U);
  EXPECT_EQ(blocks_on("7.0", {320, 37, 0}), 4U);
  const Multiprocessor& volta = *find_multiprocessor("7.0");
  EXPECT_DOUBLE_EQ(occupancy_of(volta, {128, 37, 0}, 12), 0.75);
  EXPECT_DOUBLE_EQ(occupancy_of(volta, {320, 37, 0}, 4), 0.625);
  for (const char* const pascal : {"6.0", "6.1"}) {
    EXPECT_EQ(blocks_on(pascal, {512, 64, 0}), 2U);
    EXPECT_EQ(blocks_on(pascal, {512, 65, 0}), 1U);
  }
}

TEST(Occupancy, IsZeroIfABlockDoesNotFit) {
  EXPECT_EQ(blocks_on("9.0", {1024, 64, 0}), 1U);
  EXPECT_EQ(blocks_on("9.0", {1024, 65, 0}), 0U);
  EXPECT_EQ(blocks_on("9.0", {32, 32, 227 * 1024}), 1U);
  EXPECT_EQ(blocks_on("9.0", {32, 32, 227 * 1024 + 1}), 0U);
  EXPECT_EQ(blocks_on("9.0", {1025, 32, 0}), 0U);
}

TEST(Occupancy, NamesItsLimits) {
  const Multiprocessor& hopper = *find_multiprocessor("9.0");
  EXPECT_EQ(limiters(residency(hopper, {32, 32, 0})), "blocks");
  EXPECT_EQ(limiters(residency(hopper, {64, 32, 0})), "registers and warps and blocks");
  EXPECT_EQ(limiters(residency(hopper, {256, 16, 0})), "warps");
  EXPECT_EQ(limiters(residency(hopper, {256, 16, 64 * 1024})), "shared memory");
}

TEST(Occupancy, ItsOptionNamesEveryKnownCapability) {
  std::string expected = "auto";
  for (const Multiprocessor& each : multiprocessors) expected += "|" + std::string(each.capability);
  for (const OptionRow& row : named("occupancy").options) {
    if (row.key != "occupancy.capability") continue;
    EXPECT_EQ(row.range, expected);
  }
}

#if __has_include(<cuda_occupancy.h>)

/// The properties that cuda_occupancy.h would get from a GPU of this capability.
cudaOccDeviceProp properties_of(const Multiprocessor& on) {
  const auto dot = on.capability.find('.');
  cudaOccDeviceProp gpu;
  gpu.computeMajor = std::stoi(std::string(on.capability.substr(0, dot)));
  gpu.computeMinor = std::stoi(std::string(on.capability.substr(dot + 1)));
  gpu.maxThreadsPerBlock = max_threads_of_block;
  gpu.maxThreadsPerMultiprocessor = static_cast<int>(on.threads);
  gpu.regsPerBlock = 65536;
  gpu.regsPerMultiprocessor = static_cast<int>(on.registers);
  gpu.warpSize = experiments::warp;
  gpu.sharedMemPerBlock = 48 * 1024;
  gpu.sharedMemPerMultiprocessor = on.shared;
  gpu.numSms = 1;
  gpu.sharedMemPerBlockOptin = on.shared_of_block;
  gpu.reservedSharedMemPerBlock = on.reserved;
  return gpu;
}

/// The factors in which the model and cuda_occupancy.h differ; empty if there are none.
std::string differences(const Residency& fits, const cudaOccResult& found) {
  std::string words;
  const auto compare = [&](const char* what, unsigned ours, int theirs) {
    if (ours == static_cast<unsigned>(theirs)) return;
    if (ours == Residency::unlimited && theirs == INT_MAX) return;
    words +=
        std::string(what) + ' ' + std::to_string(ours) + " not " + std::to_string(theirs) + ' ';
  };
  compare("registers", fits.by_registers, found.blockLimitRegs);
  compare("shared", fits.by_shared, found.blockLimitSharedMem);
  compare("warps", fits.by_warps, found.blockLimitWarps);
  compare("blocks", fits.by_blocks, found.blockLimitBlocks);
  compare("all", fits.blocks(), found.activeBlocksPerMultiprocessor);
  return words;
}

TEST(Occupancy, IsThatOfNvidiasCalculator) {
  std::size_t known = 0;
  for (const Multiprocessor& on : multiprocessors) {
    const cudaOccDeviceProp gpu = properties_of(on);
    bool is_known = true;
    for (int threads = 1; threads <= 1024 && is_known; threads += threads < 64 ? 9 : 31) {
      for (int registers = 1; registers <= 255 && is_known; registers += 2) {
        for (std::size_t shared = 0; shared <= 232 * 1024; shared += 1 + shared / 2) {
          cudaOccFuncAttributes kernel;
          kernel.maxThreadsPerBlock = max_threads_of_block;
          kernel.numRegs = registers;
          kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
          kernel.maxDynamicSharedSizeBytes = shared;
          kernel.numBlockBarriers = 1;
          cudaOccResult found{};
          const cudaOccDeviceState state;
          is_known = cudaOccMaxActiveBlocksPerMultiprocessor(&found, &gpu, &kernel, &state, threads,
                                                             shared) == CUDA_OCC_SUCCESS;
          if (!is_known) break;  // the toolkit is older than the GPU
          const Block block{static_cast<unsigned>(threads), static_cast<unsigned>(registers),
                            shared};
          ASSERT_EQ(differences(residency(on, block), found), "")
              << on.capability << ": " << threads << " threads, " << registers << " registers, "
              << shared << " B";
        }
      }
    }
    known += is_known ? 1 : 0;
  }
  EXPECT_GE(known, 13U);
}

#endif

TEST(Hiding, NeedsTheWarpsOfTheGuides) {
  EXPECT_DOUBLE_EQ(needed_in_flight(11, 8), 8 * 11);
  EXPECT_DOUBLE_EQ(needed_in_flight(11, 4), 44);
  EXPECT_DOUBLE_EQ(needed_in_flight(300, 4) / 30, 40);
  EXPECT_DOUBLE_EQ(expected_rate(32, 4, 128), 8);
  EXPECT_DOUBLE_EQ(expected_rate(1024, 4, 128), 128);
}

TEST(Hiding, ArithmeticBetweenLoadsIsBoundByLatencySchedulersOrMemory) {
  const StepsWithArithmetic guide{300, 0, 1, 30, 0};
  EXPECT_DOUBLE_EQ(guide.rate(20, 4), 20 / 300.0);
  EXPECT_DOUBLE_EQ(guide.rate(40, 4), 40 / 300.0);
  EXPECT_DOUBLE_EQ(guide.rate(64, 4), 4 / 30.0);
  EXPECT_DOUBLE_EQ((StepsWithArithmetic{300, 4, 1, 30, 5}.rate(1, 4)), 1 / 420.0);
  EXPECT_DOUBLE_EQ((StepsWithArithmetic{1, 0, 1, 30, 5}.rate(2, 4)), 2 / 35.0);
  EXPECT_DOUBLE_EQ((StepsWithArithmetic{300, 4, 0.01, 30, 5}.rate(64, 4)), 0.01);
}

TEST(Scheduling, MedianDisplacementIsTheDistanceFromTheOwnNumber) {
  using Places = std::vector<unsigned>;
  EXPECT_EQ(median_displacement(Places{0, 1, 2, 3}), 0U);
  EXPECT_EQ(median_displacement(Places{3, 0, 1, 2}), 1U);
  EXPECT_EQ(median_displacement(Places{3, 2, 1, 0}), 3U);
  EXPECT_EQ(waves_of(8, 4), 2U);
  EXPECT_EQ(waves_of(9, 4), 3U);
  EXPECT_EQ(wave_of(8, 4), 2U);
}

TEST(Occupancy, FallsWithAnUnfilledLastWave) {
  EXPECT_DOUBLE_EQ(filled_by_waves(8, 4), 1);
  EXPECT_DOUBLE_EQ(filled_by_waves(9, 4), 0.75);
  EXPECT_DOUBLE_EQ(filled_by_waves(1, 4), 0.25);
  EXPECT_TRUE(std::isnan(filled_by_waves(0, 4)));
  EXPECT_TRUE(std::isnan(filled_by_waves(4, 0)));
}

TEST(Divergence, OfATreeIsThatOfTheText) {
  EXPECT_DOUBLE_EQ(divergent_in_tree(256, Adders::spread), 47.0 / 64);  // 73.4 %
  EXPECT_DOUBLE_EQ(divergent_in_tree(256, Adders::neighbours), 5.0 / 64);
}

TEST(Divergence, CountsTheWaysOfEachWarp) {
  std::vector<std::uint8_t> ways(96, 0);  // three warps
  for (std::size_t i = 32; i < 64; ++i) ways[i] = static_cast<std::uint8_t>(i % 4);
  for (std::size_t i = 64; i < 96; ++i) ways[i] = 5;
  EXPECT_DOUBLE_EQ(divergence_of(ways).divergent, 1.0 / 3);
  EXPECT_DOUBLE_EQ(divergence_of(ways).ways, 2);
}

TEST(Stays, AreCountedOnEachMultiprocessor) {
  // Multiprocessor 0 holds two blocks and then a third one; multiprocessor 1 one after the other.
  const std::vector<Stay> stays = {{0, 10, 0}, {5, 20, 0}, {10, 20, 0}, {0, 10, 1}, {10, 20, 1}};
  EXPECT_EQ(max_at_once(stays), 2U);
  EXPECT_DOUBLE_EQ(mean_at_once(stays), (10 + 15 + 10 + 10 + 10) / 40.0);
  EXPECT_EQ(max_at_once({}), 0U);
  EXPECT_TRUE(std::isnan(mean_at_once({})));
}

/// Two blocks of two warps. The second one begins when a warp of the first one has ended.
TEST(Stays, OfBlocksOverlapWhereWholeBlocksDoNot) {
  const std::vector<Stay> warps = {{0, 10, 7}, {1, 20, 7}, {12, 30, 7}, {21, 31, 7}};
  const auto blocks = of_blocks(warps, 2), whole = of_whole_blocks(warps, 2);
  EXPECT_EQ(max_at_once(blocks), 2U);
  EXPECT_EQ(max_at_once(whole), 1U);
  ASSERT_EQ(whole.size(), 2U);
  EXPECT_EQ(whole[1].begin, 21U);
  EXPECT_EQ(whole[1].end, 30U);
  EXPECT_EQ(blocks[1].begin, 12U);
  EXPECT_EQ(blocks[1].end, 31U);
  // The warps of a block never met.
  EXPECT_TRUE(of_whole_blocks(std::vector<Stay>{{0, 5, 0}, {5, 9, 0}}, 2).empty());
}

}  // namespace
}  // namespace shardstream::experiments::execution
