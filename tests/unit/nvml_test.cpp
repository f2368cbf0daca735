// NVML with a fake library: existing, unsupported and missing functions.
#include "device/nvml.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "support/errors.hpp"
#include "support/fake_nvml.hpp"

namespace shardstream::device {
namespace {

using test::names;

using test::FakeNvml;
using test::fresh_fake_nvml;

TEST(Nvml, AMissingLibraryIsNotAnError) {
  const Nvml nvml("libno-such-nvml.so.1");
  EXPECT_TRUE(names(nvml.problem(), "libno-such-nvml.so.1"));
  EXPECT_TRUE(nvml.gpus().empty());
  EXPECT_FALSE(nvml.gpu_at("0000:1b:00.0"));
  EXPECT_EQ(nvml.driver_version(), "");
}

TEST(Nvml, WithoutALibraryHasNoGpus) {
  const Nvml nvml;
  EXPECT_FALSE(nvml.problem().empty());
  EXPECT_TRUE(nvml.gpus().empty());
}

TEST(Nvml, AnotherLibraryIsRejected) {
  const Nvml nvml("libm.so.6");
  EXPECT_TRUE(names(nvml.problem(), "nvmlInit_v2"));
  EXPECT_TRUE(nvml.gpus().empty());
}

TEST(Nvml, ReportsWhyItDoesNotStart) {
  FakeNvml& knobs = fresh_fake_nvml();
  knobs.init_status = 9;
  const Nvml nvml(FAKE_NVML);
  EXPECT_EQ(nvml.problem(), "nvmlInit_v2 failed (Driver Not Loaded)");
  EXPECT_TRUE(nvml.gpus().empty());
  EXPECT_EQ(knobs.sessions, 0);
}

TEST(Nvml, ShutsDownAfterInit) {
  const FakeNvml& knobs = fresh_fake_nvml();
  {
    Nvml one(FAKE_NVML);
    EXPECT_EQ(knobs.sessions, 1);
    const Nvml other = std::move(one);
    EXPECT_EQ(knobs.sessions, 1);
    EXPECT_EQ(other.driver_version(), "999.88.77");
  }
  EXPECT_EQ(knobs.sessions, 0);
}

TEST(Nvml, ReportsFactsOfGpus) {
  fresh_fake_nvml();
  const Nvml nvml(FAKE_NVML);
  EXPECT_EQ(nvml.problem(), "");
  ASSERT_EQ(nvml.gpus().size(), 2U);
  EXPECT_FALSE(nvml.gpu_at("0000:99:00.0"));
  const auto gpu = nvml.gpu_at("0000:43:00.0");
  ASSERT_TRUE(gpu);
  EXPECT_EQ(gpu->facts().uuid, nvml.gpus()[1].facts().uuid);
  const GpuFacts facts = nvml.gpus()[0].facts();
  EXPECT_EQ(facts.uuid, "GPU-fake-1b");
  EXPECT_EQ(facts.pci, "0000:1b:00.0");
  EXPECT_EQ(facts.name, "Fake GPU");
  EXPECT_EQ(facts.compute_capability, 90);
  EXPECT_EQ(facts.multiprocessors, -1);
  EXPECT_EQ(facts.memory, std::int64_t{80} << 30);
  EXPECT_EQ(facts.sm_clock_max, 1981);
  EXPECT_EQ(facts.memory_clock_max, 2619);
  EXPECT_EQ(facts.power_limit, 700);
  EXPECT_EQ(facts.ecc, "on");
  EXPECT_EQ(gpu->facts().ecc, "off");
  EXPECT_EQ(facts.pcie_generation, 1);
  EXPECT_EQ(facts.pcie_width, 8);
  EXPECT_EQ(facts.pcie_generation_max, 5);
  EXPECT_EQ(facts.pcie_width_max, 16);
  EXPECT_EQ(facts.nvlinks, 17);
  EXPECT_EQ(gpu->has_nvlink_to(nvml.gpus()[0]), true);
  EXPECT_EQ(gpu->has_nvlink_to(*gpu), false);
}

TEST(Nvml, ReportsModesOfGpusAndTheirUse) {
  FakeNvml& knobs = fresh_fake_nvml();
  const Nvml nvml(FAKE_NVML);
  const auto gpus = nvml.gpus();
  EXPECT_EQ(gpus[0].facts().compute_mode, "default");
  EXPECT_EQ(gpus[0].facts().persistence_mode, "on");
  knobs.compute_mode = 3;
  knobs.persistence_mode = 0;
  EXPECT_EQ(gpus[0].facts().compute_mode, "exclusive-process");
  EXPECT_EQ(gpus[0].facts().persistence_mode, "off");
  knobs.compute_mode = 2;
  EXPECT_EQ(gpus[0].facts().compute_mode, "prohibited");
  knobs.compute_mode = 9;  // of a newer library
  EXPECT_EQ(gpus[0].facts().compute_mode, "");
  knobs.utilization = 93;
  knobs.processes = 2;
  const GpuUse first = gpus[0].use(), second = gpus[1].use();
  EXPECT_EQ(first.performance_state, 2);
  EXPECT_EQ(second.performance_state, -1);
  EXPECT_EQ(first.utilization, 93);
  EXPECT_EQ(first.processes, 2);
  EXPECT_EQ(second.processes, 3);
  knobs.processes = 5000;  // more than are counted
  EXPECT_EQ(gpus[0].use().processes, -1);
}

TEST(Nvml, ReadsAGpu) {
  FakeNvml& knobs = fresh_fake_nvml();
  knobs.clock_reasons = 0x44;
  knobs.ecc_errors = 3;
  const Nvml nvml(FAKE_NVML);
  const auto gpu = nvml.gpu_at("0000:43:00.0");
  ASSERT_TRUE(gpu);
  const GpuReading reading = gpu->read();
  EXPECT_EQ(reading.power, 500);
  EXPECT_EQ(reading.energy, 2);
  EXPECT_EQ(reading.sm_clock, 1980);
  EXPECT_EQ(reading.memory_clock, 2619);
  EXPECT_EQ(reading.temperature, 41);
  EXPECT_EQ(reading.clock_reasons, 0x44U);
  EXPECT_EQ(gpu->ecc_errors().since_load, 3);
  EXPECT_EQ(gpu->ecc_errors().ever, 103);
}

TEST(Nvml, UnsupportedValuesAreUnknown) {
  FakeNvml& knobs = fresh_fake_nvml();
  knobs.energy_supported = knobs.power_supported = knobs.others_supported = false;
  const Nvml nvml(FAKE_NVML);
  const auto gpu = nvml.gpu_at("0000:1b:00.0");
  ASSERT_TRUE(gpu);
  const GpuReading reading = gpu->read();
  for (const double value : {reading.power, reading.energy, reading.sm_clock, reading.memory_clock,
                             reading.temperature, gpu->facts().power_limit}) {
    EXPECT_TRUE(std::isnan(value)) << value;
  }
  EXPECT_FALSE(reading.clock_reasons);
  const GpuFacts facts = gpu->facts();
  for (const int value :
       {facts.sm_clock_max, facts.memory_clock_max, facts.pcie_width_max, facts.nvlinks}) {
    EXPECT_EQ(value, -1);
  }
  EXPECT_EQ(facts.ecc, "");
  EXPECT_EQ(facts.compute_mode, "");
  EXPECT_EQ(facts.persistence_mode, "");
  const GpuUse use = gpu->use();
  for (const int value : {use.performance_state, use.utilization, use.processes}) {
    EXPECT_EQ(value, -1);
  }
  EXPECT_EQ(facts.pcie_width, 8);  // supported values are still reported
  EXPECT_EQ(gpu->ecc_errors().since_load, -1);
  EXPECT_EQ(gpu->ecc_errors().ever, -1);
  EXPECT_FALSE(gpu->has_nvlink_to(*gpu));
}

TEST(ClockReasons, AreWords) {
  EXPECT_EQ(describe_clock_reasons(0), "");
  EXPECT_EQ(describe_clock_reasons(0x1), "idle");
  EXPECT_EQ(describe_clock_reasons(0x24), "power-cap+thermal");
  EXPECT_EQ(describe_clock_reasons(0x10004), "power-cap+0x10000");
}

TEST(ClockReasons, ThatThrottle) {
  for (const std::uint64_t bit : {0x4, 0x8, 0x20, 0x40, 0x80}) {
    EXPECT_EQ(throttling(bit | 0x1), bit) << describe_clock_reasons(bit);
  }
  for (const std::uint64_t bit : {0x0, 0x1, 0x2, 0x10, 0x100, 0x200}) {
    EXPECT_EQ(throttling(bit), 0U) << describe_clock_reasons(bit);
  }
}

TEST(Pcie, RateOfALink) {
  // The rate of a lane in generations 1 to 6, in GB/s: 0.25, 0.5, 0.985, 1.969, 3.938, 8
  EXPECT_DOUBLE_EQ(nvlink_rate(90, 18), 450);
  EXPECT_DOUBLE_EQ(nvlink_rate(60, 4), 80);
  EXPECT_DOUBLE_EQ(nvlink_rate(100, 18), 900);
  EXPECT_TRUE(std::isnan(nvlink_rate(90, 0)));
  EXPECT_TRUE(std::isnan(nvlink_rate(90, -1)));
  EXPECT_DOUBLE_EQ(pcie_rate(1, 1), 0.25);
  EXPECT_DOUBLE_EQ(pcie_rate(2, 16), 8);
  EXPECT_NEAR(pcie_rate(3, 16), 15.754, 0.001);
  EXPECT_NEAR(pcie_rate(4, 16), 31.508, 0.001);
  EXPECT_NEAR(pcie_rate(5, 16), 63.015, 0.001);
  EXPECT_NEAR(pcie_rate(5, 8), 31.508, 0.001);
  EXPECT_DOUBLE_EQ(pcie_rate(6, 16), 128);
  for (const double rate :
       {pcie_rate(-1, 16), pcie_rate(0, 16), pcie_rate(7, 16), pcie_rate(5, -1), pcie_rate(5, 0)}) {
    EXPECT_TRUE(std::isnan(rate)) << rate;
  }
}

}  // namespace
}  // namespace shardstream::device
