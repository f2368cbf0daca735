// Experiments on instructions and types on a GPU.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "experiments/catalogue.hpp"
#include "support/experiments.hpp"
#include "support/session.hpp"

namespace shardstream::experiments {
namespace {

using Key = std::pair<std::string, std::string>;

using Options = std::map<std::string, std::string>;

/// The table of an experiment. Nothing on other ranks than 0.
std::optional<Table> table_of(const char* name, const Options& options = {}) {
  const test::BenchEnd ended = test::run_bench({named(name)}, options);
  EXPECT_EQ(ended.code, ExitCode::done);
  if (test::session().rank() != 0) return {};
  const report::ExperimentResult& result = ended.results.at(name);
  EXPECT_EQ(result.state, "measured") << result.message;
  if (result.state != "measured") return {};
  return result.table;
}

/// The numbers in `column` by the texts of the columns `first` and `second`.
std::map<Key, double> numbers_of(const Table& table, const char* first, const char* second,
                                 const char* column) {
  std::map<Key, double> numbers;
  for (const Row& row : table.rows()) {
    const Key key{row.get<std::string>(first), row.get<std::string>(second)};
    numbers[key] = row.get<double>(column);
  }
  return numbers;
}

/// Runs an experiment, and returns the numbers in `column` by the texts of the columns `case` and
/// `second`. Empty on other ranks than 0.
std::map<Key, double> measured(const char* name, const char* second, const char* column,
                               const Options& options = {}) {
  const std::optional<Table> table = table_of(name, options);
  return table ? numbers_of(*table, "case", second, column) : std::map<Key, double>{};
}

TEST(Integers, AreDividedFasterByShifts) {
  const auto rates = measured("integer", "way", "rate");
  if (rates.empty()) return;
  EXPECT_GT(rates.at({"division, uint32", "shift"}),
            2 * rates.at({"division, uint32", "variable"}));
  EXPECT_GT(rates.at({"remainder, uint64", "mask"}),
            2 * rates.at({"remainder, uint64", "large numbers"}));
}

TEST(Functions, HaveTheErrorsOfTheirFlags) {
  const auto errors =
      measured("math", "function", "error", {{"math.cases", "functions,exponents,flags"}});
  if (errors.empty()) return;
  for (const char* const exact : {"y / x, by flags", "1 / x, by flags", "sqrtf(x), by flags"}) {
    EXPECT_LE(errors.at({exact, "default flags"}), 0.5000001) << exact << " rounds correctly";
    EXPECT_GT(errors.at({exact, "-use_fast_math"}), 0.5000001) << exact;
  }
  EXPECT_LE(errors.at({"sine of pi x", "sinpif(x)"}), 2);
  EXPECT_GT(errors.at({"sine of pi x", "sinf(pi * x)"}), 1000);
  EXPECT_GT(errors.at({"fractional exponents", "powf(x, 1/3)"}),
            errors.at({"fractional exponents", "cbrt(x)"}));
}

TEST(Types, WithFewerDigitsHaveLargerErrors) {
  const auto errors = measured("precision", "type", "error");
  if (errors.empty()) return;
  const auto on_cores = [&](const char* type) { return errors.at({"CUDA cores", type}); };
  EXPECT_LT(on_cores("fp64"), on_cores("fp32"));
  EXPECT_LT(on_cores("fp32"), on_cores("fp16 pairs"));
  EXPECT_LT(on_cores("fp32"), on_cores("dp4a"));
  const auto of_matrices = [&](const char* type) { return errors.at({"matrices", type}); };
  EXPECT_LT(of_matrices("fp64-int8"), 2 * of_matrices("fp64"));
  EXPECT_LT(of_matrices("fp32-int8"), 2 * of_matrices("fp32"));
  EXPECT_LT(of_matrices("fp32"), of_matrices("fp32x3"));
}

TEST(Roofs, AreAboveTheKernelsThatWalkBelowThem) {
  const std::optional<Table> table = table_of("roofline");
  if (!table) return;
  const auto shares = numbers_of(*table, "part", "name", "share");
  const auto of_kernel = [&](const std::string& name) { return shares.at({"kernel", name}); };
  EXPECT_GT(of_kernel("1 fma for each element"), 0.6) << "it is bound by memory";
  EXPECT_GT(of_kernel("256 fma for each element"), 0.6) << "it is bound by arithmetic";
  for (const auto& [key, share] : shares) {
    if (key.first != "kernel" && key.first != "transfer") continue;
    const bool is_alone = key.second.find("one warp") != key.second.npos;
    EXPECT_LT(share, is_alone ? 0.6 : 1.1) << key.second;
  }
  const auto traffic = numbers_of(*table, "part", "name", "traffic");
  const auto of_memory = [&](const char* name) { return traffic.at({"memory roof", name}); };
  EXPECT_GT(of_memory("L1"), of_memory("L2"));
  EXPECT_GT(of_memory("L2"), of_memory("device memory"));
  EXPECT_GT(of_memory("device memory"), traffic.at({"link roof", "host link, up"}));
}

}  // namespace
}  // namespace shardstream::experiments
