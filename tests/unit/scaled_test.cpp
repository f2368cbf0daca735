#include "workloads/workload.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "io/source/matrix.hpp"
#include "io/source/source.hpp"
#include "runtime/runtime.hpp"
#include "workloads/registry.hpp"

namespace shardstream::workloads {
namespace {

using Words = std::vector<std::string>;

Scaled scaled(const std::string& name, const Words& words, double factor,
              const std::string& grow = "") {
  std::vector<std::span<const OptionRow>> rooms = options();
  for (const auto& room : {io::input_options(), io::matrix_options(), runtime::device_options()}) {
    rooms.push_back(room);
  }
  const OptionTable table(rooms);
  const char* const nothing[] = {nullptr};
  const Options resolved = table.resolve(table.parse_command_line(words), nothing, std::nullopt);
  const Workload& workload = named(name);
  return workload.scaled(resolved, factor, grow.empty() ? workload.grows.front() : grow);
}

std::map<std::string, std::string> options_of(const Scaled& scaled) {
  return {scaled.options.begin(), scaled.options.end()};
}

TEST(Scaled, ReduceGrowsElementsOrRowsOfAFile) {
  const Scaled generated = scaled("reduce", {"--input.count", "1000"}, 3);
  EXPECT_EQ(options_of(generated), (std::map<std::string, std::string>{{"input.count", "3000"}}));
  EXPECT_EQ(generated.factor, 3);
  const Scaled file = scaled("reduce", {"--input.data", "x.h5:/x", "--input.rows", "10"}, 2.5);
  EXPECT_EQ(options_of(file).at("input.rows"), "25");
  EXPECT_THROW(scaled("reduce", {"--input.data", "x.h5:/x"}, 2), UsageError);
  EXPECT_EQ(options_of(scaled("reduce", {"--input.shape", "4x5"}, 2)).at("input.shape"), "8x5");
  EXPECT_THROW(scaled("reduce", {"--input.count", "2^40"}, 1e9), UsageError);
}

/// Cells get more values, and their number stays.
TEST(Scaled, ReduceGrowsAReducedDimension) {
  const Words shape = {"--input.shape", "4x5x6", "--reduce.over"};
  const auto over = [&](const std::string& dimensions) {
    Words words = shape;
    words.push_back(dimensions);
    return scaled("reduce", words, 2.5);
  };
  EXPECT_EQ(options_of(over("0")).at("input.shape"), "10x5x6");
  EXPECT_EQ(options_of(over("2,1")).at("input.shape"), "4x13x6");
  EXPECT_EQ(over("2,1").factor, 13.0 / 5);
  EXPECT_THROW(over("3"), UsageError);
}

TEST(Scaled, GramGrowsSamples) {
  const Words sizes = {"--gram.rows", "30", "--gram.columns", "40"};
  EXPECT_EQ(options_of(scaled("gram", sizes, 4)).at("gram.rows"), "120");
  Words of_rows = sizes;
  of_rows.insert(of_rows.end(), {"--gram.of", "rows"});
  EXPECT_EQ(options_of(scaled("covariance", of_rows, 4)).at("gram.columns"), "160");
  EXPECT_THROW(
      scaled("gram", {"--gram.of", "rows", "--input.data", "x.h5", "--input.rows", "4"}, 2),
      UsageError);
}

/// m and n are whole tiles of the base; k is adapted to keep the work.
TEST(Scaled, GemmKeepsTheWorkOfARank) {
  const Words sizes = {"--gemm.m", "32768", "--gemm.n",         "32768",
                       "--gemm.k", "32768", "--device.backend", "cuda"};
  for (const double factor : {2.0, 3.0, 4.0, 8.0}) {
    const Scaled grown = scaled("gemm", sizes, factor);
    const auto values = options_of(grown);
    EXPECT_EQ(std::stoull(values.at("gemm.m")) % 4096, 0U) << factor;
    EXPECT_EQ(values.at("gemm.m"), values.at("gemm.n"));
    EXPECT_NEAR(grown.factor / factor, 1, 0.005) << factor;
    const double work = std::stod(values.at("gemm.m")) * std::stod(values.at("gemm.n")) *
                        std::stod(values.at("gemm.k"));
    EXPECT_DOUBLE_EQ(grown.factor, work / 0x1p45);
  }
  EXPECT_EQ(options_of(scaled("gemm", sizes, 8)).at("gemm.m"), "65536");
  EXPECT_TRUE(scaled("gemm", sizes, 1).options.empty());
  EXPECT_EQ(options_of(scaled("gemm", sizes, 3, "k")).at("gemm.k"), "98304");
  EXPECT_THROW(scaled("gemm", {"--input.a", "a.h5", "--input.b", "b.h5"}, 2), UsageError);
}

/// W = 2 s, s = 0.25: the parallel 1.5 s become 4.5 s.
TEST(Scaled, ModelGrowsItsParallelPart) {
  const Scaled grown = scaled("model", {"--model.work", "2s", "--model.serial", "0.25"}, 3);
  EXPECT_DOUBLE_EQ(grown.factor, 2.5);
  const auto values = options_of(grown);
  EXPECT_EQ(values.at("model.work"), "5s");
  EXPECT_EQ(values.at("model.serial"), "0.1");
}

TEST(Outcome, EveryTableOfResultsGetsAColumnValidated) {
  Outcome outcome;
  outcome.verified = Verification::passed;
  outcome.results = {Table("forgetful", {{"value", ColumnType::real}}),
                     Table("careful", {{"validated", ColumnType::integer}, {"value"}})};
  outcome.results[0].add({1.0});
  for (const std::int64_t validated : {0, 1}) outcome.results[1].add({validated, 2.0});
  const auto validated = [&](std::size_t table, std::size_t row) {
    return outcome.results[table].rows()[static_cast<std::ptrdiff_t>(row)].get<std::int64_t>(
        "validated");
  };
  outcome.add_validated();
  EXPECT_EQ(validated(0, 0), 1);
  EXPECT_EQ(validated(1, 0), 0);  // stays as the workload has set it
  EXPECT_EQ(validated(1, 1), 1);
  EXPECT_EQ(outcome.results[1].columns().front().name, "validated");
  outcome.invalidate("the input has changed");
  EXPECT_EQ(validated(0, 0), 0);
  EXPECT_EQ(validated(1, 1), 0);
  EXPECT_EQ(outcome.verified, Verification::failed);
}

}  // namespace
}  // namespace shardstream::workloads
