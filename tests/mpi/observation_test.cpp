// What ranks gather of their GPUs, played by a library: tables, energy, throttling, warnings.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "measure/telemetry.hpp"
#include "mpi/session.hpp"
#include "runtime/topology.hpp"
#include "unit/fake_nvml.hpp"

namespace shardstream {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using test::session;

std::size_t column(const Table& table, std::string_view name) {
  for (std::size_t i = 0; i < table.columns().size(); ++i) {
    if (table.columns()[i].name == name) return i;
  }
  throw std::runtime_error("there is no column " + std::string(name));
}

template <class Type>
Type cell(const Table& table, std::size_t row, std::string_view name) {
  return std::get<Type>(table.rows().at(row).at(column(table, name)));
}

TEST(Topology, OfGpusThatNobodyCanUse) {
  test::fresh_fake_nvml();
  const device::Nvml nvml(FAKE_NVML);
  const auto topology = runtime::observe({.session = session(), .threads = 3, .nvml = nvml});
  ASSERT_EQ(topology.ranks.rows().size(), static_cast<std::size_t>(session().size()));
  for (std::size_t rank = 0; rank < topology.ranks.rows().size(); ++rank) {
    EXPECT_EQ(cell<std::int64_t>(topology.ranks, rank, "rank"), static_cast<std::int64_t>(rank));
    EXPECT_EQ(cell<std::int64_t>(topology.ranks, rank, "threads"), 3);
    EXPECT_EQ(cell<std::string>(topology.ranks, rank, "backend"), "none");
    EXPECT_EQ(cell<std::string>(topology.ranks, rank, "gpu_uuid"), "");
    EXPECT_EQ(cell<std::string>(topology.ranks, rank, "pinned_nodes"), "unknown");
  }
  const Table& gpus = topology.gpus;
  ASSERT_EQ(gpus.rows().size(), 2U);  // once, whatever the number of ranks that see them
  EXPECT_EQ(cell<std::int64_t>(gpus, 1, "gpu"), 1);
  EXPECT_EQ(cell<std::string>(gpus, 0, "host"), session().host());
  EXPECT_EQ(cell<std::string>(gpus, 0, "pci"), "0000:1b:00.0");
  EXPECT_EQ(cell<std::string>(gpus, 1, "uuid"), "GPU-fake-43");
  EXPECT_EQ(cell<std::int64_t>(gpus, 0, "rank"), -1);
  EXPECT_EQ(cell<std::int64_t>(gpus, 0, "visible"), 0);
  EXPECT_EQ(cell<std::string>(gpus, 0, "name"), "Fake GPU");
  EXPECT_EQ(cell<std::int64_t>(gpus, 0, "compute_capability"), 90);
  EXPECT_EQ(cell<std::int64_t>(gpus, 0, "multiprocessors"), -1);
  EXPECT_EQ(cell<std::int64_t>(gpus, 0, "memory"), std::int64_t{80} << 30);
  EXPECT_EQ(cell<std::int64_t>(gpus, 0, "sm_clock_max"), 1981);
  EXPECT_EQ(cell<std::int64_t>(gpus, 0, "memory_clock_max"), 2619);
  EXPECT_EQ(cell<double>(gpus, 0, "power_limit"), 700);
  EXPECT_EQ(cell<std::string>(gpus, 1, "ecc"), "off");
  EXPECT_EQ(cell<std::int64_t>(gpus, 0, "pcie_generation"), 1);
  EXPECT_EQ(cell<std::int64_t>(gpus, 0, "pcie_width"), 8);
  EXPECT_EQ(cell<std::int64_t>(gpus, 0, "pcie_generation_max"), 5);
  EXPECT_EQ(cell<std::int64_t>(gpus, 0, "pcie_width_max"), 16);
  EXPECT_NEAR(cell<double>(gpus, 0, "pcie_rate_max"), 63.015, 0.001);
  EXPECT_EQ(cell<std::int64_t>(gpus, 0, "nvlinks"), 17);
  EXPECT_TRUE(topology.peers.rows().empty());
}

TEST(Topology, WhatIsNotKnownStaysSo) {
  auto& knobs = test::fresh_fake_nvml();
  knobs.power_supported = knobs.others_supported = false;
  const device::Nvml nvml(FAKE_NVML);
  const Table gpus = runtime::observe({.session = session(), .nvml = nvml}).gpus;
  ASSERT_EQ(gpus.rows().size(), 2U);
  for (const char* name : {"power_limit", "pcie_rate_max"}) {
    EXPECT_TRUE(std::isnan(cell<double>(gpus, 0, name))) << name;
  }
  for (const char* name : {"sm_clock_max", "pcie_width_max", "nvlinks"}) {
    EXPECT_EQ(cell<std::int64_t>(gpus, 0, name), -1) << name;
  }
  EXPECT_EQ(cell<std::string>(gpus, 0, "ecc"), "");
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

  const auto samples = session().sum(work.telemetry.samples().size());
  ASSERT_EQ(run.samples.rows().size(), samples);
  std::int64_t rank = -1;
  for (std::size_t row = 0; row < samples; ++row) {
    const auto its = cell<std::int64_t>(run.samples, row, "rank");
    const bool first_of_rank = its != rank;
    EXPECT_EQ(its, rank + (first_of_rank ? 1 : 0));
    rank = its;
    const double seconds = cell<double>(run.samples, row, "seconds");
    if (first_of_rank) {
      EXPECT_LT(seconds, 0);  // before the first repetition began
    }
    EXPECT_EQ(cell<double>(run.samples, row, "power"), 250);
    EXPECT_EQ(cell<double>(run.samples, row, "temperature"), 41);
    EXPECT_GE(cell<double>(run.samples, row, "took"), 0.0005);
    const bool throttled = rank == session().size() - 1;
    EXPECT_EQ(cell<std::int64_t>(run.samples, row, "throttled"), throttled ? 1 : 0);
    EXPECT_EQ(cell<std::string>(run.samples, row, "clock_reasons"),
              throttled ? "idle+power-cap" : "idle");
  }
  EXPECT_EQ(rank, session().size() - 1);

  ASSERT_EQ(run.warnings.size(), static_cast<std::size_t>(session().size()) + 1);
  EXPECT_NE(run.warnings[0].find("rank 0 met 1 memory errors"), std::string::npos)
      << run.warnings[0];
  const std::string who = "power-cap: ranks " + std::to_string(session().size() - 1) + ")";
  EXPECT_NE(run.warnings.back().find(who), std::string::npos) << run.warnings.back();
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
  EXPECT_TRUE(run.samples.rows().empty());
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
