// The data on GPUs that ranks gather, from a simulated library: tables, energy, throttling,
// warnings.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <thread>

#include "core/error.hpp"
#include "device/device.hpp"
#include "measure/telemetry.hpp"
#include "result/tables.hpp"
#include "runtime/topology.hpp"
#include "support/errors.hpp"
#include "support/fake_nvml.hpp"
#include "support/session.hpp"

namespace shardstream {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using test::session;

/// A GPU that has properties and nothing else.
class OneGpu final : public device::Device {
 public:
  OneGpu() {
    info_.backend = "cuda";
    info_.uuid = "GPU-fake-1b";
    info_.pci = "0000:1b:00.0";
  }
  const device::DeviceInfo& info() const override { return info_; }
  std::unique_ptr<device::Stream> make_stream(device::Priority) override { return nullptr; }
  std::unique_ptr<device::Event> make_event() override { return nullptr; }
  std::unique_ptr<device::Event> make_timed_event() override { return nullptr; }
  void* allocate(device::Memory, std::size_t) override { throw Error("a GPU without memory"); }
  void release(device::Memory, void*, std::size_t) noexcept override {}

 private:
  device::DeviceInfo info_;
};

TEST(Topology, ListsUnusableGpus) {
  auto& knobs = test::fresh_fake_nvml();
  knobs.compute_mode = 3;
  knobs.utilization = 41;
  knobs.processes = 1;
  const device::Nvml nvml(FAKE_NVML);
  const auto topology = runtime::observe({.session = session(), .threads = 3, .nvml = nvml});
  ASSERT_EQ(topology.ranks.size(), static_cast<std::size_t>(session().size()));
  std::int64_t number = 0;
  for (const result::Rank& rank : topology.ranks) {
    EXPECT_EQ(rank.rank, number++);
    EXPECT_EQ(rank.threads, 3);
    EXPECT_EQ(rank.backend, "none");
    EXPECT_EQ(rank.gpu_uuid, "");
    EXPECT_EQ(rank.pinned_nodes, "unknown");
  }
  ASSERT_EQ(topology.gpus.size(), 2U);  // once, whatever the number of ranks that see them
  const result::Gpu &first = topology.gpus[0], &second = topology.gpus[1];
  EXPECT_EQ(second.gpu, 1);
  EXPECT_EQ(first.host, session().host());
  EXPECT_EQ(first.pci, "0000:1b:00.0");
  EXPECT_EQ(second.uuid, "GPU-fake-43");
  EXPECT_EQ(first.rank, -1);
  EXPECT_FALSE(first.visible);
  EXPECT_EQ(first.name, "Fake GPU");
  EXPECT_EQ(first.compute_capability, 90);
  EXPECT_EQ(first.multiprocessors, -1);
  EXPECT_EQ(first.memory, std::int64_t{80} << 30);
  EXPECT_EQ(first.sm_clock_max, 1981);
  EXPECT_EQ(first.memory_clock_max, 2619);
  EXPECT_EQ(first.power_limit, 700);
  EXPECT_EQ(second.ecc, "off");
  EXPECT_EQ(first.pcie_generation, 1);
  EXPECT_EQ(first.pcie_width, 8);
  EXPECT_EQ(first.pcie_generation_max, 5);
  EXPECT_EQ(first.pcie_width_max, 16);
  EXPECT_NEAR(first.pcie_rate_max, 63.015, 0.001);
  EXPECT_EQ(first.nvlinks, 17);
  EXPECT_EQ(first.compute_mode, "exclusive-process");
  EXPECT_EQ(first.persistence_mode, "on");
  EXPECT_EQ(first.async_engines, -1);
  EXPECT_EQ(first.concurrent_kernels, -1);
  EXPECT_EQ(first.maps_host_memory, -1);
  EXPECT_EQ(first.performance_state, 2);
  EXPECT_EQ(first.utilization, 41);
  EXPECT_EQ(first.other_processes, 1);
  EXPECT_EQ(second.other_processes, 2);
  EXPECT_TRUE(topology.peers.empty());
}

/// NVML shows ranks among the processes of their GPU.
TEST(Topology, DoesNotCountRanksAsOtherProcesses) {
  const auto ranks = session().size();
  for (const int others : {-1, 0, 3}) {  // -1: NVML hides a process
    test::fresh_fake_nvml().processes = static_cast<unsigned>(ranks + others);
    const device::Nvml nvml(FAKE_NVML);
    OneGpu device;
    const auto gpus =
        runtime::observe({.session = session(), .device = &device, .nvml = nvml}).gpus;
    EXPECT_EQ(gpus.at(0).pci, device.info().pci);
    EXPECT_EQ(gpus[0].rank, 0);
    EXPECT_EQ(gpus[0].other_processes, others);
  }
}

TEST(Topology, UnknownValuesStayUnknown) {
  auto& knobs = test::fresh_fake_nvml();
  knobs.power_supported = knobs.others_supported = false;
  const device::Nvml nvml(FAKE_NVML);
  const auto gpus = runtime::observe({.session = session(), .nvml = nvml}).gpus;
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_TRUE(std::isnan(gpus[0].power_limit));
  EXPECT_TRUE(std::isnan(gpus[0].pcie_rate_max));
  EXPECT_EQ(gpus[0].sm_clock_max, -1);
  EXPECT_EQ(gpus[0].pcie_width_max, -1);
  EXPECT_EQ(gpus[0].nvlinks, -1);
  EXPECT_EQ(gpus[0].ecc, "");
}

/// One sampled repetition, and a second one that is too short for samples.
struct Work {
  device::Nvml nvml{FAKE_NVML};
  measure::Telemetry telemetry{nvml.gpu_at("0000:1b:00.0"), 0.01, 1000};
  std::vector<measure::Repetition> repetitions;

  Work() {
    auto& knobs = test::fake_nvml();
    telemetry.start();
    while (knobs.millijoules < 1000) std::this_thread::sleep_for(milliseconds(1));
    const auto begin = Clock::now();
    while (knobs.millijoules < 6000) std::this_thread::sleep_for(milliseconds(1));
    const auto end = Clock::now();
    repetitions.push_back({1, {}, begin, end});
    repetitions.push_back({1, {}, end, end});
    ++knobs.ecc_errors;
    telemetry.stop();
  }
};

TEST(GatherTelemetry, OfRanksWithAGpuEach) {
  const bool last = session().rank() == session().size() - 1;
  auto& knobs = test::fresh_fake_nvml();
  knobs.clock_reasons = last ? 0x5 : 0x1;
  knobs.microseconds = 500;
  const Work work;
  const auto mine = measure::energy_between(work.telemetry.samples(), work.repetitions[0].begin,
                                            work.repetitions[1].end);
  ASSERT_TRUE(mine.counted);
  double sum = 0;
  for (const double joules : session().gather(std::vector<double>{mine.joules})) sum += joules;
  const auto run = measure::gather_telemetry(session(), work.telemetry, work.repetitions,
                                             std::to_string(session().rank()));
  EXPECT_TRUE(run.energy.counted);
  EXPECT_DOUBLE_EQ(run.energy.joules, sum);
  EXPECT_EQ(run.throttled, (std::vector<std::int64_t>{1, -1}));

  ASSERT_EQ(run.samples.size(), session().sum(work.telemetry.samples().size()));
  std::int64_t rank = -1;
  for (const result::GpuSample& sample : run.samples) {
    const bool first_of_rank = sample.rank != rank;
    EXPECT_EQ(sample.rank, rank + (first_of_rank ? 1 : 0));
    rank = sample.rank;
    if (first_of_rank) {
      EXPECT_LT(sample.seconds, 0);  // before the first repetition began
    }
    EXPECT_EQ(sample.power, 250);
    EXPECT_EQ(sample.temperature, 41);
    EXPECT_GE(sample.took, 0.0005);
    const bool throttled = rank == session().size() - 1;
    EXPECT_EQ(sample.throttled, throttled ? 1 : 0);
    EXPECT_EQ(sample.clock_reasons, throttled ? "idle+power-cap" : "idle");
  }
  EXPECT_EQ(rank, session().size() - 1);

  ASSERT_EQ(run.warnings.size(), static_cast<std::size_t>(session().size()) + 1);
  EXPECT_TRUE(test::names(run.warnings[0], "rank 0", "1 uncorrectable"));
  EXPECT_TRUE(test::names(run.warnings.back(), "power-cap", session().size() - 1));
}

TEST(GatherTelemetry, CountsASharedGpuOnce) {
  test::fresh_fake_nvml();
  const Work work;
  const auto mine = measure::energy_between(work.telemetry.samples(), work.repetitions[0].begin,
                                            work.repetitions[1].end);
  const auto all = session().gather(std::vector<double>{mine.joules});
  const auto run =
      measure::gather_telemetry(session(), work.telemetry, work.repetitions, "host 0000:1b:00.0");
  EXPECT_DOUBLE_EQ(run.energy.joules, all[0]);
}

TEST(GatherTelemetry, WithoutSamplesNothingIsKnown) {
  measure::Telemetry none(std::nullopt, 0.1, 16);
  none.start();
  none.stop();
  const std::vector<measure::Repetition> repetitions = {{1, {}, Clock::now(), Clock::now()}};
  const auto run = measure::gather_telemetry(session(), none, repetitions, "");
  EXPECT_TRUE(std::isnan(run.energy.joules));
  EXPECT_EQ(run.throttled, std::vector<std::int64_t>{-1});
  EXPECT_TRUE(run.samples.empty());
  EXPECT_TRUE(run.warnings.empty());
}

/// The energy of all is unknown where one rank's is.
TEST(GatherTelemetry, DoesNotPassOffAPartForTheWhole) {
  auto& knobs = test::fresh_fake_nvml();
  const bool knows = session().rank() > 0;
  knobs.energy_supported = knobs.power_supported = knows;
  const Work work;
  const auto run = measure::gather_telemetry(session(), work.telemetry, work.repetitions,
                                             std::to_string(session().rank()));
  EXPECT_TRUE(std::isnan(run.energy.joules)) << run.energy.joules;
}

}  // namespace
}  // namespace shardstream
