// Arithmetic on samples, and the thread that takes them from a fake NVML library.
#include "measure/telemetry.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "support/fake_nvml.hpp"

namespace shardstream::measure {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using test::FakeNvml;
using test::fresh_fake_nvml;

Clock::time_point at(int ms) {
  return Clock::time_point() + std::chrono::hours(1) + milliseconds(ms);
}

TelemetrySample sample(int ms, double watts, double joules = device::unknown,
                       std::optional<std::uint64_t> reasons = {}) {
  device::GpuReading reading;
  reading.power = watts;
  reading.energy = joules;
  reading.clock_reasons = reasons;
  return {at(ms), reading};
}

TEST(Energy, UsesTheCounterIfThereIsOne) {
  // The power would give another value.
  const std::vector samples = {sample(0, 1, 500), sample(100, 1, 510), sample(200, 1, 530),
                               sample(300, 1, 560)};
  const Energy all = energy_between(samples, at(0), at(300));
  EXPECT_TRUE(all.counted);
  EXPECT_DOUBLE_EQ(all.joules, 60);
  EXPECT_DOUBLE_EQ(energy_between(samples, at(50), at(250)).joules, 40);
  EXPECT_DOUBLE_EQ(energy_between(samples, at(100), at(200)).joules, 20);
}

TEST(Energy, WithoutACounterIsTheIntegralOfPower) {
  const std::vector samples = {sample(0, 100), sample(100, 300), sample(300, 300)};
  const Energy all = energy_between(samples, at(0), at(300));
  EXPECT_FALSE(all.counted);
  EXPECT_NEAR(all.joules, 20 + 60, 1e-9);
  EXPECT_NEAR(energy_between(samples, at(50), at(300)).joules, 10 + 60, 1e-9);
  // A counter that fails once is not used.
  const std::vector gap = {sample(0, 100, 5), sample(100, 100), sample(200, 100, 900)};
  EXPECT_FALSE(energy_between(gap, at(0), at(200)).counted);
  EXPECT_NEAR(energy_between(gap, at(0), at(200)).joules, 20, 1e-9);
}

TEST(Energy, OfWorkThatSamplesMissIsUnknown) {
  const std::vector samples = {sample(0, 100, 0), sample(100, 100, 10), sample(200, 100, 20)};
  const auto unknown = [&](int from, int to) {
    return std::isnan(energy_between(samples, at(from), at(to)).joules);
  };
  EXPECT_FALSE(unknown(50, 200));
  EXPECT_TRUE(unknown(110, 190));  // no sample in between
  EXPECT_TRUE(unknown(50, 150));   // one sample
  EXPECT_TRUE(unknown(-1, 200));   // begins before the first sample
  EXPECT_TRUE(unknown(0, 201));    // ends after the last sample
  EXPECT_TRUE(std::isnan(energy_between({}, at(0), at(1)).joules));
  const std::vector nothing = {sample(0, device::unknown), sample(100, device::unknown)};
  EXPECT_TRUE(std::isnan(energy_between(nothing, at(0), at(100)).joules));
  const std::vector reset = {sample(0, 100, 50), sample(100, 100, 1)};
  EXPECT_TRUE(std::isnan(energy_between(reset, at(0), at(100)).joules));
}

TEST(Throttled, IsSetByAnySampleInBetween) {
  const std::vector samples = {sample(0, 1, 1, 0x4), sample(100, 1, 1, 0x1), sample(200, 1, 1, 0x8),
                               sample(300, 1, 1, 0x21), sample(400, 1, 1)};
  EXPECT_EQ(throttled_between(samples, at(50), at(150)), 0U);  // idle is no throttling
  EXPECT_EQ(throttled_between(samples, at(100), at(300)), 0x28U);
  EXPECT_EQ(throttled_between(samples, at(350), at(450)),
            std::nullopt);  // the sample does not know
  EXPECT_EQ(throttled_between(samples, at(110), at(190)), std::nullopt);  // no sample
}

/// Runs the sampler until it has taken `count` samples (each reading counts one joule).
void sample_for(Telemetry& telemetry, const FakeNvml& knobs, unsigned long long count) {
  telemetry.start();
  while (knobs.millijoules < 1000 * count) std::this_thread::sleep_for(milliseconds(1));
  telemetry.stop();
}

TEST(Telemetry, SamplesBetweenStartAndStop) {
  FakeNvml& knobs = fresh_fake_nvml();
  knobs.clock_reasons = 0x4;
  const device::Nvml nvml(FAKE_NVML);
  Telemetry telemetry(nvml.gpu_at("0000:1b:00.0"), 0.002, 1000);
  const auto before = Clock::now();
  sample_for(telemetry, knobs, 5);
  const auto after = Clock::now();
  const auto& samples = telemetry.samples();
  ASSERT_GE(samples.size(), 6U);  // stop() takes the last one
  EXPECT_EQ(knobs.millijoules, 1000 * samples.size());
  EXPECT_GE(samples.front().time, before);
  EXPECT_LE(samples.back().time, after);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(samples[i].reading.energy, static_cast<double>(i + 1));
    EXPECT_EQ(samples[i].reading.power, 250);
    EXPECT_EQ(samples[i].reading.temperature, 41);
    if (i == 0) continue;
    EXPECT_GT(samples[i].time, samples[i - 1].time);
    // The last sample may be early.
    if (i + 1 < samples.size()) {
      EXPECT_GE(samples[i].time - samples[i - 1].time, milliseconds(2));
    }
  }
  EXPECT_EQ(throttled_between(samples, before, after), 0x4U);
  EXPECT_EQ(telemetry.new_ecc_errors(), 0);
}

TEST(Telemetry, StartsAgain) {
  FakeNvml& knobs = fresh_fake_nvml();
  const device::Nvml nvml(FAKE_NVML);
  Telemetry telemetry(nvml.gpu_at("0000:1b:00.0"), 0.001, 1000);
  sample_for(telemetry, knobs, 3);
  const auto count = telemetry.samples().size();
  sample_for(telemetry, knobs, count + 3);
  EXPECT_EQ(telemetry.samples().front().reading.energy, static_cast<double>(count + 1));
}

TEST(Telemetry, KeepsAtMostMaxSamples) {
  FakeNvml& knobs = fresh_fake_nvml();
  const device::Nvml nvml(FAKE_NVML);
  Telemetry telemetry(nvml.gpu_at("0000:1b:00.0"), 0.0005, 16);
  knobs.clock_reasons = 0x8;
  telemetry.start();
  while (knobs.millijoules < 2000) std::this_thread::yield();
  knobs.clock_reasons = 0;
  while (knobs.millijoules < 60000) std::this_thread::sleep_for(milliseconds(1));
  telemetry.stop();
  const auto& samples = telemetry.samples();
  EXPECT_LE(samples.size(), 16U);
  EXPECT_GE(samples.size(), 8U);
  EXPECT_EQ(samples.front().reading.energy, 1);
  EXPECT_EQ(samples.back().reading.energy, static_cast<double>(knobs.millijoules) / 1000);
  for (std::size_t i = 1; i < samples.size(); ++i) {
    EXPECT_GT(samples[i].reading.energy, samples[i - 1].reading.energy);
  }
  // Only the first samples have it. Merging has kept it, but not for all samples.
  EXPECT_EQ(throttled_between(samples, samples.front().time, samples.back().time), 0x8U);
  EXPECT_EQ(throttled_between(samples, samples.back().time, samples.back().time), 0U);
}

TEST(Telemetry, RecordsTheTimeOfASample) {
  FakeNvml& knobs = fresh_fake_nvml();
  const device::Nvml nvml(FAKE_NVML);
  Telemetry telemetry(nvml.gpu_at("0000:1b:00.0"), 0.0005, 16);
  knobs.microseconds = 20000;
  telemetry.start();
  while (knobs.millijoules < 2000) std::this_thread::yield();
  knobs.microseconds = 0;
  while (knobs.millijoules < 60000) std::this_thread::sleep_for(milliseconds(1));
  telemetry.stop();
  const auto& samples = telemetry.samples();
  EXPECT_GE(samples[0].took, 0.02);
  EXPECT_GE(samples[1].took, 0.02);  // the maximum of the merged samples
}

TEST(Telemetry, CountsNewMemoryErrors) {
  FakeNvml& knobs = fresh_fake_nvml();
  knobs.ecc_errors = 7;
  const device::Nvml nvml(FAKE_NVML);
  Telemetry telemetry(nvml.gpu_at("0000:1b:00.0"), 10, 16);
  telemetry.start();
  knobs.ecc_errors = 9;
  telemetry.stop();
  EXPECT_EQ(telemetry.new_ecc_errors(), 2);
  EXPECT_GE(telemetry.samples().size(), 1U);
  knobs.others_supported = false;
  telemetry.start();
  telemetry.stop();
  EXPECT_EQ(telemetry.new_ecc_errors(), -1);
}

TEST(Telemetry, WithoutAGpuDoesNothing) {
  Telemetry telemetry(std::nullopt, 0.001, 16);
  telemetry.start();
  telemetry.stop();
  EXPECT_TRUE(telemetry.samples().empty());
  EXPECT_EQ(telemetry.new_ecc_errors(), -1);
}

TEST(Telemetry, StopsWhenDestroyed) {
  const FakeNvml& knobs = fresh_fake_nvml();
  const device::Nvml nvml(FAKE_NVML);
  {
    Telemetry telemetry(nvml.gpu_at("0000:1b:00.0"), 0.001, 16);
    telemetry.start();
  }
  const unsigned long long looks = knobs.millijoules;
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(knobs.millijoules, looks);
}

TEST(MaxSamples, OfAllRanksFitIntoAFile) {
  EXPECT_EQ(max_samples(1), 4096U);
  EXPECT_EQ(max_samples(64), 512U);
  EXPECT_EQ(max_samples(100000), 64U);
}

}  // namespace
}  // namespace shardstream::measure
