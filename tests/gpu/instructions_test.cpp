// Experiments on instructions and types on a GPU.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "experiments/catalogue.hpp"
#include "support/experiments.hpp"
#include "support/session.hpp"

namespace shardstream::experiments {
namespace {

using Key = std::pair<std::string, std::string>;

/// Runs an experiment, and returns the numbers in `column` by the texts of the first two columns.
/// Empty on other ranks than 0.
std::map<Key, double> measured(const char* name, const char* second, const char* column,
                               const std::map<std::string, std::string>& options = {}) {
  const test::BenchEnd ended = test::run_bench({named(name)}, options);
  EXPECT_EQ(ended.code, ExitCode::done);
  std::map<Key, double> numbers;
  if (test::session().rank() != 0) return numbers;
  const report::ExperimentResult& result = ended.results.at(name);
  EXPECT_EQ(result.state, "measured") << result.message;
  if (result.state != "measured") return numbers;
  for (const Row& row : result.table.rows()) {
    const Key key{row.get<std::string>("case"), row.get<std::string>(second)};
    numbers[key] = row.get<double>(column);
  }
  return numbers;
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
}

}  // namespace
}  // namespace shardstream::experiments
