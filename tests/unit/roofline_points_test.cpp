// The limiter of kernels, and their places below the roofs of a file of `bench`.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "report/experiments.hpp"
#include "report/roofline_points.hpp"
#include "report/run_file.hpp"

namespace shardstream::report {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

Limiter limiter(double memory, double shared, double compute, double issue) {
  return limiter_of({memory, shared, compute, issue});
}

TEST(Limiter, IsARoofOfWhichAtLeastSixTenthsAreReached) {
  EXPECT_EQ(limiter(0.6, 0.59, 0.59, 0.59), Limiter::memory);
  EXPECT_EQ(limiter(0.59, 0.6, 0.59, 0.59), Limiter::shared_memory);
  EXPECT_EQ(limiter(0.59, 0.59, 0.6, 0.59), Limiter::compute);
  EXPECT_EQ(limiter(0.59, 0.59, 0.59, 0.6), Limiter::issue);
  EXPECT_EQ(limiter(0.59, 0.59, 0.59, 0.59), Limiter::latency);
  EXPECT_EQ(limiter(0, 0, 0, 0), Limiter::latency);
}

TEST(Limiter, IsBothIfDataAndInstructionsReachARoof) {
  EXPECT_EQ(limiter(0.6, 0, 0.6, 0), Limiter::both);
  EXPECT_EQ(limiter(0, 0.6, 0, 0.6), Limiter::both);
  EXPECT_EQ(limiter(0.7, 0.8, 0, 0), Limiter::shared_memory) << "the larger share counts";
  EXPECT_EQ(limiter(0.8, 0.7, 0, 0), Limiter::memory);
  EXPECT_EQ(limiter(0, 0, 0.9, 0.95), Limiter::compute) << "arithmetic is issued, too";
}

TEST(Limiter, IsNotLatencyIfAShareIsUnknown) {
  EXPECT_EQ(limiter(0.9, unknown, unknown, unknown), Limiter::memory);
  EXPECT_EQ(limiter(unknown, unknown, unknown, 0.9), Limiter::issue);
  EXPECT_EQ(limiter(0.1, 0.1, unknown, 0.1), Limiter::unknown);
  EXPECT_EQ(limiter(0.1, 0.1, 0.1, unknown), Limiter::unknown);
}

TEST(Limiter, OfATransferCountsBothParts) {
  EXPECT_EQ(limiter_in_turn(0.4, 0.4), Limiter::both);
  EXPECT_EQ(limiter_in_turn(0.4, 0.39), Limiter::latency);
  EXPECT_EQ(limiter_in_turn(0.7, 0.2), Limiter::memory);
}

const std::vector<Column> work = {
    {"ci_lo", ColumnType::real},        {"ci_hi", ColumnType::real},
    {"share", ColumnType::real},        {"operations", ColumnType::real},
    {"bytes", ColumnType::real},        {"duration", ColumnType::real},
    {"arithmetic", ColumnType::text},   {"distinct", ColumnType::real},
    {"shared_bytes", ColumnType::real}, {"instructions", ColumnType::real},
    {"remark", ColumnType::text}};

std::vector<Column> columns(std::vector<Column> varied) {
  varied.insert(varied.begin(), {"rank", ColumnType::integer});
  varied.insert(varied.end(), work.begin(), work.end());
  return varied;
}

/// The columns that a table may lack; `distinct` and `shared` in MB, `instructions` in 10^6.
struct More {
  double distinct = unknown, shared = 0, instructions = 0;
};

/// A row; `operations` in 10^9, `bytes` in MB, `duration` in ms.
std::vector<Cell> row(std::int64_t rank, std::vector<Cell> varied, double operations, double bytes,
                      double duration, const std::string& arithmetic, const More& more = {}) {
  varied.insert(varied.begin(), rank);
  varied.insert(varied.end(), {unknown, unknown, unknown, operations, bytes, duration, arithmetic,
                               more.distinct, more.shared, more.instructions, std::string()});
  return varied;
}

/// Roofs of 100 GB/s (device memory), 1000 GB/s (L2), 10 GB/s (link), 2000 GB/s (shared memory),
/// 1000 Gop/s (fp32) and 50 * 10^9 instructions per second.
ExperimentResult roofs() {
  ExperimentResult made;
  made.name = "roofline";
  made.state = "measured";
  made.look = "roofline";
  made.x = "intensity";
  made.y = "rate";
  made.series = "part";
  made.table = Table("rows", columns({{"part", ColumnType::text},
                                      {"name", ColumnType::text},
                                      {"traffic", ColumnType::real},
                                      {"rate", ColumnType::real}}));
  const auto add = [&](std::string_view part, const char* name, double traffic, double rate) {
    made.table.add(row(0, {std::string(part), std::string(name), traffic, rate}, rate,
                       traffic * 1e3, 1e3, ""));
  };
  add(memory_roof, "L2", 1000, 0);
  add(memory_roof, "device memory", 100, 0);
  add(link_roof, "host link, up", 10, 0);
  add(shared_roof, "shared memory", 2000, 0);
  add(issue_roof, "instructions of warps", 1, 50);
  add(arithmetic_roof, "fp32", 1, 800);
  add(arithmetic_roof, "fp32", 1, 1000);
  made.table.add(
      row(1, {std::string(arithmetic_roof), std::string("fp32"), 1.0, 9e9}, 1, 1, 1, ""));
  made.table.add(
      row(0, {std::string(transfer), std::string("sum"), 8.0, 1.0}, 1, 8e3, 1e3, "fp32"));
  return made;
}

/// A ladder on two ranks.
ExperimentResult ladder() {
  ExperimentResult made;
  made.name = "ladder";
  made.state = "measured";
  made.look = "steps";
  made.x = "rung";
  made.y = "time";
  made.panel = "n";
  made.table = Table("rows", columns({{"n", ColumnType::integer, "B"},
                                      {"rung", ColumnType::text},
                                      {"time", ColumnType::real}}));
  const auto add = [&](const char* rung, double operations, double bytes, double duration,
                       const char* arithmetic, std::int64_t rank = 0, const More& more = {}) {
    made.table.add(row(rank, {std::int64_t{4}, std::string(rung), duration}, operations, bytes,
                       duration, arithmetic, more));
  };
  add("streams", 0.09, 90, 1, "fp32");
  add("computes", 0.9, 5, 1, "fp32");
  add("waits", 0.1, 5, 1, "fp32");
  add("in L2", 0.1, 900, 1, "fp32");
  add("copies", 0, 90, 1, "");
  add("integers", 1, 5, 1, "");
  add("untimed", 1, 1, unknown, "fp32");
  add("tiles", 0.1, 80, 1, "fp32", 0, {.distinct = 1, .shared = 1800});
  add("issues", 0.1, 5, 1, "fp32", 0, {.instructions = 40});
  add("uncounted", 0.1, 5, 1, "fp32", 0, {.instructions = unknown});
  add("streams", 1, 1, 1, "fp32", 1);
  return made;
}

const Placed& placed(const Roofline& roofline, const std::string& name) {
  const auto found = std::ranges::find(roofline.placed, name, &Placed::name);
  if (found == roofline.placed.end()) throw std::out_of_range(name);
  return *found;
}

TEST(Kernels, AreBelowTheRoofsOfTheirBytesAndOperations) {
  const std::vector<ExperimentResult> experiments = {roofs(), ladder()};
  const auto roofline = roofline_of(experiments, "GPU", {});
  ASSERT_TRUE(roofline);
  EXPECT_EQ(roofline->placed.size(), 10U);  // nine rungs of rank 0, one transfer
  const Placed& computes = placed(*roofline, "n 4 B, computes");
  EXPECT_DOUBLE_EQ(computes.rate, 900);
  EXPECT_DOUBLE_EQ(computes.traffic, 5);
  EXPECT_DOUBLE_EQ(computes.intensity, 180);
  EXPECT_DOUBLE_EQ(computes.shares.compute, 0.9) << "the highest row of rank 0 counts";
  EXPECT_EQ(computes.limiter(), Limiter::compute);
  EXPECT_EQ(placed(*roofline, "n 4 B, waits").limiter(), Limiter::latency);
  EXPECT_EQ(placed(*roofline, "n 4 B, in L2").memory, "L2");
  EXPECT_EQ(placed(*roofline, "n 4 B, in L2").limiter(), Limiter::memory);
  EXPECT_EQ(placed(*roofline, "n 4 B, copies").limiter(), Limiter::memory);
  EXPECT_EQ(placed(*roofline, "n 4 B, integers").limiter(), Limiter::unknown);
  EXPECT_EQ(placed(*roofline, "n 4 B, tiles").limiter(), Limiter::shared_memory);
  EXPECT_EQ(placed(*roofline, "n 4 B, tiles").memory, "L2") << "its words are used again";
  EXPECT_DOUBLE_EQ(placed(*roofline, "n 4 B, tiles").shares.shared, 0.9);
  EXPECT_EQ(placed(*roofline, "n 4 B, issues").limiter(), Limiter::issue);
  EXPECT_EQ(placed(*roofline, "n 4 B, uncounted").limiter(), Limiter::unknown);
  EXPECT_EQ(placed(*roofline, "sum").memory, "host link, up");
  EXPECT_DOUBLE_EQ(placed(*roofline, "sum").shares.memory, 0.8);
  ASSERT_EQ(roofline->notes.size(), 1);
  EXPECT_NE(roofline->notes[0].find("1 row"), std::string::npos) << roofline->notes[0];
}

TEST(Kernels, AreServedByTheSlowestMemoryThatIsFastEnough) {
  const Roofs levels{{{"device memory", 100}, {"L2", 200}, {"L1", 1000}}, {}, {}};
  const auto name = [&](double traffic, double distinct) {
    return memory_of(levels, traffic, distinct).memory->name;
  };
  EXPECT_EQ(name(1, unknown), "device memory");
  EXPECT_EQ(name(109, unknown), "device memory");
  EXPECT_EQ(name(112, unknown), "L2");
  EXPECT_EQ(name(1e6, unknown), "L1");
  EXPECT_EQ(name(50, 50), "device memory") << "no word is used again";
  EXPECT_EQ(name(50, 10), "L2");
  EXPECT_EQ(name(500, 90), "device memory") << "0.9 of it, and 0.5 of L1";
  EXPECT_DOUBLE_EQ(memory_of(levels, 500, 90).share, 0.9);
}

TEST(Kernels, HaveNoPlaceWithoutRoofs) {
  const std::vector<ExperimentResult> experiments = {ladder()};
  EXPECT_FALSE(roofline_of(experiments, "GPU", {}));
}

RunFile run(const char* device) {
  RunFile made;
  made.path = "run.h5";
  made.device = device;
  made.size.ranks = made.size.gpus = 2;
  made.timing.median = 2;
  made.work = 3.2;  // Tflop of both ranks
  made.work_unit = "Tflop";
  made.streamed = 16e9;
  made.options.resolved = {{"product.precision", "fp32"}};
  made.ceilings = {{.name = "link_up", .aggregate = 20, .unit = "GB/s", .on_path = true}};
  return made;
}

TEST(Runs, OfTheSameGpuHaveTheRateOfOneGpu) {
  const std::vector<ExperimentResult> experiments = {roofs()};
  const RunFile same = run("GPU"), other = run("another GPU");
  const std::vector<const RunFile*> runs = {&same, &other};
  const auto roofline = roofline_of(experiments, "GPU", runs);
  ASSERT_TRUE(roofline);
  ASSERT_TRUE(roofline->placed.back().is_run);
  const Placed& found = roofline->placed.back();
  EXPECT_DOUBLE_EQ(found.rate, 800);
  EXPECT_DOUBLE_EQ(found.traffic, 4);
  EXPECT_DOUBLE_EQ(found.shares.memory, 0.4);
  EXPECT_EQ(found.limiter(), Limiter::compute);
  ASSERT_EQ(roofline->notes.size(), 1);
  EXPECT_NE(roofline->notes[0].find("another GPU"), std::string::npos);
}

TEST(Runs, OfSumsHaveAnOperationForEachElement) {
  const std::vector<ExperimentResult> experiments = {roofs()};
  RunFile sums = run("GPU");
  sums.work_unit = "GB";
  sums.options.resolved = {{"input.type", "f64"}};
  sums.ceilings[0].name = "device_read";
  const std::vector<const RunFile*> runs = {&sums};
  const auto roofline = roofline_of(experiments, "GPU", runs);
  ASSERT_TRUE(roofline);
  EXPECT_DOUBLE_EQ(roofline->placed.back().intensity, 1 / 8.0);
  EXPECT_EQ(roofline->placed.back().memory, "device memory");
}

}  // namespace
}  // namespace shardstream::report
