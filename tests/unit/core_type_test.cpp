// The choice of OpenBLAS's core type, with simulated processors.
#include "kernels/gemm/multiply/core_type.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace shardstream::gemm::cblas {
namespace {

constexpr Processor avx2{.avx2 = true, .fma = true};
constexpr Processor avx512{.avx2 = true,
                           .fma = true,
                           .avx512f = true,
                           .avx512cd = true,
                           .avx512bw = true,
                           .avx512dq = true,
                           .avx512vl = true};

Processor of_amd(Processor processor) {
  processor.is_amd = true;
  return processor;
}

Processor zen4() {
  Processor processor = of_amd(avx512);
  processor.is_zen4 = true;
  return processor;
}

TEST(CoreType, AnUnknownProcessorGetsKernelsForItsInstructions) {
  for (const std::string_view detected :
       {"Prescott", "Core2", "Nehalem", "Sandybridge", "Barcelona", "Generic"}) {
    EXPECT_EQ(better_core(avx512, detected), "SkylakeX") << detected;
    EXPECT_EQ(better_core(of_amd(avx512), detected), "SkylakeX") << detected;
    EXPECT_EQ(better_core(avx2, detected), "Haswell") << detected;
    EXPECT_EQ(better_core(of_amd(avx2), detected), "Zen") << detected;
    EXPECT_EQ(better_core(zen4(), detected), "Zen") << detected;
    EXPECT_EQ(better_core(Processor{}, detected), "") << detected;
  }
}

TEST(CoreType, AvxTwoIsLessThanAvx512) {
  EXPECT_EQ(better_core(avx512, "Haswell"), "SkylakeX");
  EXPECT_EQ(better_core(of_amd(avx512), "Zen"), "SkylakeX");
}

TEST(CoreType, AnEqualOrNewerCoreTypeStays) {
  for (const std::string_view detected :
       {"SkylakeX", "Cooperlake", "SapphireRapids", "a core type of the future"}) {
    EXPECT_EQ(better_core(avx512, detected), "") << detected;
    EXPECT_EQ(better_core(avx2, detected), "") << detected;
  }
  for (const std::string_view detected : {"Haswell", "Zen", "Excavator"}) {
    EXPECT_EQ(better_core(avx2, detected), "") << detected;
    EXPECT_EQ(better_core(of_amd(avx2), detected), "") << detected;
  }
}

TEST(CoreType, EachInstructionSetOfTheKernelsIsNeeded) {
  for (const auto part : {&Processor::avx512f, &Processor::avx512cd, &Processor::avx512bw,
                          &Processor::avx512dq, &Processor::avx512vl}) {
    Processor processor = avx512;
    processor.*part = false;
    EXPECT_EQ(better_core(processor, "Prescott"), "Haswell");
    EXPECT_EQ(better_core(processor, "Haswell"), "");
  }
  for (const auto part : {&Processor::avx2, &Processor::fma}) {
    Processor processor = avx512;
    processor.*part = false;
    EXPECT_EQ(better_core(processor, "Prescott"), "");
  }
}

TEST(CoreType, AZen4MultipliesWithAvx2) {
  for (const std::string_view detected : {"SkylakeX", "Cooperlake", "Haswell"}) {
    EXPECT_EQ(better_core(zen4(), detected), "Zen") << detected;
  }
  EXPECT_EQ(better_core(zen4(), "Zen"), "");
}

}  // namespace
}  // namespace shardstream::gemm::cblas
