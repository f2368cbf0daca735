// Shifts and scales of variables: a function of the data alone, the same on any number of ranks; a
// second pass only for variables that need one, and one without the samples that lack values.
#include "workloads/product/engine/normalization/normalizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/source/generator_source.hpp"
#include "kernels/data/generate.hpp"
#include "mpi/host_options.hpp"
#include "support/matrices.hpp"
#include "support/session.hpp"
#include "support/temporary_folder.hpp"
#include "workloads/product/product.hpp"

namespace shardstream::workloads::product {
namespace {

using test::session;

constexpr std::uint64_t variables = 900, samples = 6000;  // two rows of tiles

/// Doubles by a function of sample and variable.
class FunctionSource final : public io::RowMajorSource {
 public:
  using Function = std::function<double(std::uint64_t sample, std::uint64_t variable)>;

  FunctionSource(Function function, bool variables_are_rows)
      : RowMajorSource(variables_are_rows ? io::Extents{variables, samples}
                                          : io::Extents{samples, variables}),
        function_(std::move(function)),
        rows_(variables_are_rows) {}

  const std::string& name() const override { return name_; }
  ElementType type() const override { return ElementType::f64; }
  const std::string& access() const override { return name_; }
  std::uint64_t stored_bytes() const override { return 0; }
  void read(std::uint64_t first, std::uint64_t count, std::byte* out) const override {
    const std::uint64_t columns = rows_ ? samples : variables;
    for (std::uint64_t i = first; i < first + count; ++i) {
      const std::uint64_t row = i / columns, column = i % columns;
      const double x = rows_ ? function_(column, row) : function_(row, column);
      std::memcpy(out + (i - first) * sizeof(x), &x, sizeof(x));
    }
  }

 private:
  std::string name_ = "function of the tests";
  Function function_;
  bool rows_;
};

/// From 0 to 1, without an order.
double noise(std::uint64_t sample, std::uint64_t variable) {
  return static_cast<double>(mix(sample * 1000003 + variable) >> 11) * 0x1p-53;
}

struct Result {
  std::uint64_t checksum, renormalized, constant, passes, unchecked;
};

struct Normalizing : testing::Test {
  const Options options_ = test::host_options(2);
  Log log_;
  runtime::Runtime runtime_{session(), options_, log_};
  const pipeline::StagingSizes staging_ =
      pipeline::staging_sizes(runtime_.options, runtime_.resources);
  const test::TemporaryFolder folder_;
  const std::filesystem::path result_ = folder_ / "C.h5";
  static constexpr auto uuid = "12345678-1234-4123-8123-000000000000";

  Operands operands_of(const FunctionSource::Function& function, gemm::Precision precision,
                       bool variables_are_rows) const {
    Operands operands;
    for (auto* const matrix : {&operands.a, &operands.b}) {
      *matrix = test::matrix_of(std::make_unique<FunctionSource>(function, variables_are_rows));
    }
    operands.symmetric = operands.center = true;
    operands.transpose_a = !variables_are_rows;
    operands.transpose_b = variables_are_rows;
    operands.precision = precision;
    operands.m = operands.n = variables;
    operands.k = samples;
    operands.divisor = Divisor::n_minus_1;
    return operands;
  }

  /// The sum of the checksums of the tiles that a later run would take over from this rank.
  std::uint64_t checksum_of(io::Journal& journal) const {
    EXPECT_TRUE(journal.sync());
    std::ifstream file(io::journal_path_of(result_, uuid, 0));
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    std::uint64_t sum = 0;
    const auto checkpoint = io::parse_checkpoint(result_, text);
    for (std::size_t i = 0; checkpoint && i < checkpoint->pieces.size(); ++i) {
      sum += tile_of(checkpoint->pieces[i])->weighted;
    }
    return sum;
  }

  /// On all ranks.
  Result run(const FunctionSource::Function& function, gemm::Precision precision,
             bool variables_are_rows = false, io::Journal* journal = nullptr) {
    const Operands operands = operands_of(function, precision, variables_are_rows);
    Normalizer normalizer(runtime_, operands, staging_.readers);
    return run(operands, normalizer, journal);
  }

  Result run(const Operands& operands, Normalizer& normalizer, io::Journal* journal = nullptr) {
    const Problem problem =
        problem_of(operands, options_, static_cast<std::uint64_t>(session().size()),
                   {std::uint64_t{1} << 30}, Backend::host);
    const Plan plan =
        make_plan(problem, {1e9, 1e9, 1e9, 1e12}, static_cast<std::uint64_t>(session().rank()));
    const auto library = gemm::make_multiply_plan(operands.precision, problem.tile, Backend::host);
    Engine product(runtime_, operands, plan, *library, staging_, {}, journal);
    normalizer.run(product);
    EXPECT_EQ(product.checks().failure, "");
    EXPECT_EQ(normalizer.passes() > 1, normalizer.renormalized() > 0);
    const CheckSummary checks = product.checks();
    if (journal != nullptr) {
      EXPECT_EQ(checksum_of(*journal), checks.checksum);
    }
    const auto constant = std::ranges::count_if(
        checks.variables, [](const auto& of) { return of.statistics.is_constant(); });
    return {session().sum(product.checksum()), normalizer.renormalized(),
            session().sum(static_cast<std::uint64_t>(constant)), normalizer.passes(),
            session().sum(checks.unchecked)};
  }
};

TEST_F(Normalizing, ShiftsAndScalesAreThoseOfTheFirstSamples) {
  const auto function = [](std::uint64_t sample, std::uint64_t variable) {
    if (variable == 0) return 0.1;
    if (variable == 1) return sample == 3 ? HUGE_VAL : 1.0;
    const double spread = variable == 2 ? 1e200 : variable == 3 ? 1e-200 : 3.0;
    return spread * (noise(sample, variable) + 1e6);
  };
  const Operands operands = operands_of(function, gemm::Precision::fp32, true);
  std::vector<double> stored(4 * first_samples + first_samples);
  for (std::uint64_t v = 0; v < 5; ++v) {
    for (std::uint64_t s = 0; s < first_samples; ++s)
      stored[v * first_samples + s] = function(s, v);
  }
  const Normalization made = normalization_of(
      operands, reinterpret_cast<const std::byte*>(stored.data()), 5, first_samples);
  EXPECT_EQ(made.shift[0], 0.1) << "so that a constant variable becomes zeros";
  EXPECT_EQ(made.scale[0], 1);
  EXPECT_FALSE(std::isfinite(made.shift[1]));
  EXPECT_EQ(made.scale[1], 1);
  for (std::uint64_t v = 2; v < 5; ++v) {
    long double sum = 0, squares = 0;
    for (std::uint64_t s = 0; s < first_samples; ++s) sum += function(s, v);
    const long double mean = sum / first_samples;
    for (std::uint64_t s = 0; s < first_samples; ++s) squares += std::pow(function(s, v) - mean, 2);
    const auto deviation = static_cast<double>(std::sqrt(squares / first_samples));
    EXPECT_NEAR(made.shift[v], static_cast<double>(mean), deviation / 7) << v;
    const double unit = std::exp2(std::ilogb(deviation) - 2);
    EXPECT_EQ(std::remainder(made.shift[v] - function(0, v), unit), 0) << v;
    const double scaled = deviation * made.scale[v];
    EXPECT_TRUE(0.5 <= scaled && scaled <= 1) << v << ": " << scaled;
    EXPECT_EQ(std::exp2(std::ilogb(made.scale[v])), made.scale[v]) << v;
  }
}

/// The bits that one rank made, written down: any number of ranks must make them.
TEST_F(Normalizing, OnePassHasTheSameBitsOnAnyRanks) {
  const auto function = [](std::uint64_t sample, std::uint64_t variable) {
    return variable % 300 == 7 ? 5.5 : noise(sample, variable) + static_cast<double>(variable);
  };
  const Result by_column = run(function, gemm::Precision::fp64);
  EXPECT_EQ(by_column.renormalized, 0U);
  EXPECT_EQ(by_column.constant, 3U);
  EXPECT_EQ(run(function, gemm::Precision::fp64, true).checksum, by_column.checksum);
  const auto all = session().gather(std::vector{by_column.checksum});
  for (const std::uint64_t each : all) EXPECT_EQ(each, by_column.checksum);
}

/// Three variables whose first samples are not like the others, on whichever rank they are seen.
TEST_F(Normalizing, OnlyVariablesThatNeedItAreRenormalized) {
  const auto function = [](std::uint64_t sample, std::uint64_t variable) {
    const double x = noise(sample, variable);
    if (variable == 3) return sample < first_samples ? x + 1e5 : x;  // a mean far away
    if (variable == 850) return sample < first_samples ? 0 : x + 10;
    if (variable == 500) return sample < first_samples ? 0 : (x - 0.5) * 1e15;  // a large spread
    if (variable == 501) return sample < 2 * first_samples ? x + 1e5 : x;  // within its own spread
    return x;
  };
  io::Journal journal(result_, uuid, 0, 1, {}, log_, [] {});
  journal.begin({}, nullptr, {100, 10, tile_record});
  const Result got = run(function, gemm::Precision::fp32, false, &journal);
  EXPECT_EQ(got.renormalized, 3U);
  EXPECT_EQ(got.passes, 2U);
  EXPECT_EQ(got.constant, 0U);
}

/// The first shift and scale bring values beyond the range of the precision, or to zero. Zeros and
/// constants next to them are read again, but are not renormalized.
TEST_F(Normalizing, ValuesOutOfRangeAreRenormalizedByTheirExtremes) {
  const auto function = [](std::uint64_t sample, std::uint64_t variable) {
    const double x = noise(sample, variable);
    const bool begins = sample < first_samples;
    if (variable == 3) return begins ? 0 : x * 1e6 + 1e6;
    if (variable == 850) return begins ? 0 : x * 1e-9;
    if (variable == 400) return begins ? x * 1e-30 : x * 1e30;
    if (variable == 5) return 0.0;
    if (variable == 860) return 3e7;
    return x;
  };
  for (const bool rows : {false, true}) {
    const Result got = run(function, gemm::Precision::fp16, rows);
    EXPECT_EQ(got.renormalized, 3U);
    EXPECT_EQ(got.passes, 2U);
    EXPECT_EQ(got.constant, 2U);
    EXPECT_EQ(got.unchecked, 0U);
    const auto all = session().gather(std::vector{got.checksum});
    for (const std::uint64_t each : all) EXPECT_EQ(each, got.checksum);
  }
}

/// If the extremes of a variable do not determine its mean, its sums in the second pass do.
TEST_F(Normalizing, AThirdPassFollowsIfTheExtremesMislead) {
  const auto function = [](std::uint64_t sample, std::uint64_t variable) {
    if (variable != 7) return noise(sample, variable);
    return sample < first_samples ? 0 : sample == 4000 ? 1e30 : noise(sample, 7);
  };
  const Result got = run(function, gemm::Precision::fp16);
  EXPECT_EQ(got.renormalized, 1U);
  EXPECT_EQ(got.passes, 3U);
  EXPECT_EQ(got.unchecked, 0U);
}

/// No shift or scale makes values finite that are not finite in the data.
TEST_F(Normalizing, VariablesThatAreNotFiniteNeedNoOtherPass) {
  const auto function = [](std::uint64_t sample, std::uint64_t variable) {
    if (variable == 7 && sample == 5000) return std::nan("");
    if (variable == 8 && sample == 5000) return HUGE_VAL;
    if (variable == 9 && sample == 5) return -HUGE_VAL;
    return noise(sample, variable);
  };
  for (const gemm::Precision precision : {gemm::Precision::fp64, gemm::Precision::fp16}) {
    const Result got = run(function, precision);
    EXPECT_EQ(got.renormalized, 0U);
    EXPECT_EQ(got.passes, 1U);
    EXPECT_GT(got.unchecked, 0U);
  }
}

TEST(Shifts, OfIntegersKeepWhatDoublesLose) {
  constexpr std::int64_t large = 1'700'000'000'000'000'001;
  const Shift near = moved({large, 0.25}, 0.5, true);
  EXPECT_EQ(near.whole, large + 1);
  EXPECT_EQ(near.part, -0.25);
  const Shift small = moved({4, 0.25}, 0.5, true);
  EXPECT_EQ(static_cast<double>(small.whole) + small.part, 4.75);
  EXPECT_EQ(moved({0, 0.1}, 0.7, false).part, 0.1 + 0.7);
  const Shift last = integer_shift(INT64_MAX - 3, 10);
  EXPECT_EQ(last.whole, INT64_MAX);
  EXPECT_EQ(last.part, 7);
  EXPECT_EQ(integer_shift(0, 1e300).whole, INT64_MAX);
  EXPECT_EQ(integer_shift(-5, -0x1p63).whole, INT64_MIN);
}

/// If a sample that lacks a value is one of the first, or not, and if samples are found before a
/// pass, or by its sums.
TEST_F(Normalizing, SamplesThatLackValuesAreLeftOut) {
  constexpr double missing = std::numeric_limits<double>::quiet_NaN();
  for (const std::uint64_t sample : {std::uint64_t{7}, samples - 3}) {
    const auto function = [&](std::uint64_t s, std::uint64_t v) {
      if (sample == 7 && v == 500) return missing;  // has no value at all
      return s == sample && v % 400 == 3 ? missing : noise(s, v);
    };
    std::vector<std::uint64_t> checksums;
    for (const bool rows : {false, true}) {
      Operands operands = operands_of(function, gemm::Precision::fp32, rows);
      operands.missing = Missing::complete;
      for (const bool first : {false, true}) {
        Normalizer normalizer(runtime_, operands, staging_.readers);
        if (first) normalizer.find_samples();
        for (int repetition = 0; repetition < 2; ++repetition) {
          checksums.push_back(run(operands, normalizer).checksum);
        }
        const Samples& found = normalizer.samples();
        EXPECT_EQ(found.count, samples - 1);
        EXPECT_EQ(found.total, samples - 1);
        EXPECT_EQ(found.alpha, 1.0 / (samples - 2));
        EXPECT_FALSE(found.counts(sample));
        EXPECT_EQ(found.missing[3], 1U);
        EXPECT_EQ(found.empty,
                  sample == 7 ? std::vector<std::uint64_t>{500} : std::vector<std::uint64_t>());
      }
    }
    const auto all = session().gather(checksums);
    for (const std::uint64_t each : all) EXPECT_EQ(each, checksums[0]);
  }
}

/// Large numbers that nearly cancel do not hide small ones.
TEST_F(Normalizing, MeansOfSamplesAreExact) {
  const auto function = [](std::uint64_t s, std::uint64_t v) {
    const double whole = std::floor(std::ldexp(noise(s, v / 4), 20));
    return v % 4 == 0 ? -0x1p35 * whole : v % 4 == 2 ? 0x1p35 * whole : whole;
  };
  for (const bool rows : {false, true}) {
    Operands operands = operands_of(function, gemm::Precision::fp64, rows);
    operands.center = false;
    operands.center_over_variables = true;
    const SampleScan scan = scan_samples(runtime_, operands, staging_.readers);
    ASSERT_EQ(scan.means.size(), samples);
    for (std::uint64_t s = 0; s < samples; s += 97) {
      std::int64_t sum = 0;
      for (std::uint64_t v = 0; v < variables; ++v) {
        sum += static_cast<std::int64_t>(function(s, v));
      }
      ASSERT_EQ(scan.means[s].part, static_cast<double>(sum) / variables) << s;
    }
  }
}

}  // namespace
}  // namespace shardstream::workloads::product
