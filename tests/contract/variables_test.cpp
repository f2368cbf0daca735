// Centred and scaled variables on every backend: their sums, and the correction of a tile.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/gemm/panel/panel.hpp"
#include "kernels/gemm/panel/variables.hpp"
#include "support/backend.hpp"

namespace shardstream::gemm {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

struct Variables : ::testing::Test {
  std::unique_ptr<device::Device> device_ = test::make_backend();
  std::unique_ptr<device::Stream> stream_ = device_->make_stream();
  const Backend backend_ = backend_named(device_->info().backend);

  struct Got {
    std::vector<double> sums, squares;
    bool operator==(const Got&) const = default;
  };

  /// The sums of the samples in the rows of `data`, in B's panel or, transposed, in A's. They are
  /// added `times` times, of which the first overwrites.
  Got sums(const std::vector<float>& data, Precision precision, std::uint64_t variables,
           std::uint64_t depth, Side side, int times, const std::vector<double>& factors = {}) {
    const bool transposed = side == Side::a;
    const std::uint64_t rows = transposed ? variables : depth;
    const std::uint64_t columns = transposed ? depth : variables;
    const std::uint64_t ld = columns + 4;
    const auto raw = test::on_device(*device_, *stream_, data);
    const device::Buffer<std::byte> panel(*device_, device::Memory::device,
                                          rows * ld * panel_element_bytes(precision, backend_));
    stream_->launch(canonicalize_kernel(), {raw.data(), ElementType::f32, transposed, panel.data(),
                                            precision, rows, columns, ld});
    const std::vector<double> before(variables + 1, 77);
    const auto sums = test::on_device(*device_, *stream_, before);
    const auto squares = test::on_device(*device_, *stream_, before);
    const device::Buffer<double> scratch(
        *device_, device::Memory::device,
        (depth + samples_a_sum - 1) / samples_a_sum * 2 * variables);
    const auto of_samples = test::on_device(*device_, *stream_, factors);
    for (int i = 0; i < times; ++i) {
      stream_->launch(variable_sums_kernel(), {panel.data(), precision, side, variables, depth, ld,
                                               sums.data(), squares.data(), scratch.data(), i == 0,
                                               factors.empty() ? nullptr : of_samples.data()});
    }
    Got got{test::from_device(*stream_, sums), test::from_device(*stream_, squares)};
    EXPECT_EQ(got.sums.back(), 77);
    EXPECT_EQ(got.squares.back(), 77);
    return got;
  }
};

constexpr Precision rounding[] = {Precision::fp64, Precision::fp32, Precision::tf32,
                                  Precision::bf16, Precision::fp16, Precision::fp32x3};

/// Small integers, for which every order of additions is exact.
TEST_F(Variables, SumsOfIntegersAreExactInBothPanels) {
  constexpr std::uint64_t shapes[][2] = {{1, 1},    {1, 7001},   {3, 9001}, {33, 263}, {263, 33},
                                         {1031, 2}, {128, 1024}, {600, 1},  {70, 2049}};
  std::mt19937 random(11);
  for (const auto& [variables, depth] : shapes) {
    std::vector<float> data(variables * depth);
    for (float& x : data) x = static_cast<float>(random() % 100) - 50;
    for (const Precision precision : rounding) {
      const Got of_b = sums(data, precision, variables, depth, Side::b, 2);
      ASSERT_EQ(sums(data, precision, variables, depth, Side::a, 2), of_b) << word_of(precision);
      for (std::uint64_t v = 0; v < variables; ++v) {
        double sum = 0, squares = 0;
        for (std::uint64_t s = 0; s < depth; ++s) {
          const auto x = static_cast<double>(data[s * variables + v]);
          sum += x;
          squares += x * x;
        }
        ASSERT_EQ(of_b.sums[v], 2 * sum)
            << word_of(precision) << " " << variables << " x " << depth;
        ASSERT_EQ(of_b.squares[v], 2 * squares) << word_of(precision) << " at " << v;
      }
    }
  }
}

/// Also if additions round, since a super-tile may use the sums of either panel.
TEST_F(Variables, SumsHaveTheSameBitsInBothPanels) {
  constexpr std::uint64_t variables = 77, depth = 3001;
  std::mt19937 random(5);
  std::normal_distribution<float> normal(3, 1000);
  std::vector<float> data(variables * depth);
  for (float& x : data) x = normal(random);
  for (const Precision precision : rounding) {
    const Got of_b = sums(data, precision, variables, depth, Side::b, 1);
    EXPECT_EQ(sums(data, precision, variables, depth, Side::a, 1), of_b) << word_of(precision);
    EXPECT_NE(sums(data, precision, variables, depth - 1, Side::b, 1), of_b);
  }
}

TEST_F(Variables, SumsAreMultipliedByTheFactorsOfSamples) {
  constexpr std::uint64_t variables = 70, depth = 2049;
  std::mt19937 random(3);
  std::vector<float> data(variables * depth);
  for (float& x : data) x = static_cast<float>(random() % 100) - 50;
  std::vector<double> factors(depth);
  for (double& factor : factors) factor = static_cast<double>(random() % 9) / 4;
  const Got plain = sums(data, Precision::fp32, variables, depth, Side::b, 1);
  for (const Side side : {Side::a, Side::b}) {
    const Got got = sums(data, Precision::fp32, variables, depth, side, 1, factors);
    EXPECT_EQ(got.squares, plain.squares);
    for (std::uint64_t v = 0; v < variables; ++v) {
      double sum = 0;
      for (std::uint64_t s = 0; s < depth; ++s) {
        sum += static_cast<double>(data[s * variables + v]) * factors[s];
      }
      ASSERT_EQ(got.sums[v], sum) << v;
    }
  }
}

/// The sum of squares is NaN if a value of the data is not finite, and infinite if a finite one is
/// beyond the range of the precision.
TEST_F(Variables, SumsThatAreNotFiniteStayInTheirVariable) {
  constexpr std::uint64_t variables = 40, depth = 1100;
  std::vector<float> data(variables * depth, 1);
  data[1099 * variables + 5] = NAN;
  data[39] = HUGE_VALF;
  data[3 * variables + 7] = data[3 * variables + 5] = 1e6F;
  for (const Side side : {Side::a, Side::b}) {
    const Got got = sums(data, Precision::fp16, variables, depth, side, 1);
    EXPECT_TRUE(std::isnan(got.squares[5]));
    EXPECT_EQ(got.squares[7], inf);
  }
  data[3 * variables + 7] = 1;
  for (const Side side : {Side::a, Side::b}) {
    const Got got = sums(data, Precision::fp32, variables, depth, side, 1);
    for (std::uint64_t v = 0; v < variables; ++v) {
      EXPECT_EQ(std::isfinite(got.squares[v]), v != 5 && v != 39) << v;
    }
    EXPECT_EQ(got.sums[0], depth);
  }
}

// ---------------------------------------------------------------- from sums to factors

struct Settled {
  std::vector<double> sums, squares, factors;
  std::uint64_t unsettled;
};

/// Two layers of two segments each. Each segment but the first has 1; the first has the rest.
Settled settle(device::Device& device, device::Stream& stream, const std::vector<double>& sums,
               const std::vector<double>& squares, const std::vector<double>& scales,
               double samples, bool center, bool scale, Precision precision,
               const std::vector<std::uint8_t>& lost = {},
               const std::vector<double>& weights = {}) {
  const std::size_t count = sums.size(), segment = 2 * count + 3, layer = 2 * segment + 5;
  std::vector<double> parts(2 * layer, 1e300);
  for (std::size_t part = 0; part < 4; ++part) {
    for (std::size_t v = 0; v < count; ++v) {
      double* const at = parts.data() + part / 2 * layer + part % 2 * segment + v;
      at[0] = part == 0 ? sums[v] - 3 : 1;
      at[count] = part == 0 ? squares[v] - 3 : 1;
    }
  }
  const auto there = test::on_device(device, stream, parts);
  const auto device_scales = test::on_device(device, stream, scales);
  const auto total = test::on_device(device, stream, std::vector<double>(count));
  const auto total_squares = test::on_device(device, stream, std::vector<double>(count));
  const auto factors = test::on_device(device, stream, std::vector<double>(count));
  const auto unsettled = test::on_device(device, stream, std::vector<std::uint64_t>{100});
  const auto device_lost = test::on_device(device, stream, lost);
  const auto device_weights = test::on_device(device, stream, weights);
  stream.launch(settle_kernel(),
                {there.data(), 2, layer, 2, segment, count, count, samples, center, scale,
                 precision, device_scales.data(), total.data(), total_squares.data(),
                 factors.data(), unsettled.data(), lost.empty() ? nullptr : device_lost.data(),
                 weights.empty() ? nullptr : device_weights.data()});
  return {test::from_device(stream, total), test::from_device(stream, total_squares),
          test::from_device(stream, factors), test::from_device(stream, unsettled)[0] - 100};
}

TEST_F(Variables, FactorsUndoTheScaleOrTheDeviation) {
  // A mean of 2 and a variance of 4; no variance; sums that are not finite.
  const std::vector<double> sums{200, 0, nan, 10, 50}, squares{800, 0, 10, inf, 100};
  const std::vector<double> scales{0.5, 1, 1, 1, 1024};
  const Settled raw =
      settle(*device_, *stream_, sums, squares, scales, 100, true, false, Precision::fp32);
  EXPECT_EQ(raw.sums[0], 200);
  EXPECT_EQ(raw.squares[0], 800);
  EXPECT_EQ(raw.factors[0], 2);
  EXPECT_EQ(raw.factors[1], 1);
  EXPECT_TRUE(std::isnan(raw.factors[2]));
  EXPECT_TRUE(std::isnan(raw.factors[3]));
  EXPECT_EQ(raw.factors[4], 1.0 / 1024);
  const Settled scaled =
      settle(*device_, *stream_, sums, squares, scales, 100, true, true, Precision::fp32);
  EXPECT_EQ(scaled.factors[0], 1.0 / 20);
  EXPECT_EQ(scaled.factors[1], 0);
  EXPECT_TRUE(std::isnan(scaled.factors[2]));
  const Settled about_zero =
      settle(*device_, *stream_, sums, squares, scales, 100, false, true, Precision::fp32);
  EXPECT_EQ(about_zero.factors[4], 1.0 / 10);
}

/// The scale of a variable that is left out is 0: its factor is NaN, or 0 if its weight is.
TEST_F(Variables, FactorsAreMultipliedByTheWeightsOfVariables) {
  const std::vector<double> sums{200, 200, 0, 0, nan}, squares{800, 800, 0, 0, nan};
  const std::vector<double> scales{0.5, 0.5, 0, 0, 1}, weights{1, 3, 2, 0, 2};
  const Settled got = settle(*device_, *stream_, sums, squares, scales, 100, true, false,
                             Precision::fp32, {}, weights);
  EXPECT_EQ(got.factors[0], 2);
  EXPECT_EQ(got.factors[1], 6);
  EXPECT_TRUE(std::isnan(got.factors[2]));
  EXPECT_EQ(got.factors[3], 0);
  EXPECT_TRUE(std::isnan(got.factors[4]));
  EXPECT_EQ(got.unsettled, 0U);
  const Settled scaled = settle(*device_, *stream_, sums, squares, scales, 100, true, true,
                                Precision::fp32, {}, weights);
  EXPECT_EQ(scaled.factors[1], 1.0 / 20 * 3);
  EXPECT_TRUE(std::isnan(scaled.factors[2]));
  EXPECT_EQ(scaled.factors[3], 0);
}

TEST_F(Variables, VariablesAreUnsettledOnlyIfAnotherShiftWouldHelp) {
  const auto unsettled = [&](double sum, double squares, bool center, Precision precision) {
    // More variables than one block of a GPU processes.
    return settle(*device_, *stream_, std::vector(300, sum), std::vector(300, squares),
                  std::vector(300, 1.0), 100, center, false, precision)
        .unsettled;
  };
  const double near = 100 * (1 + 3.9 * 3.9), far = 100 * (1 + 4.1 * 4.1);
  EXPECT_EQ(unsettled(390, near, true, Precision::fp32), 0U);
  EXPECT_EQ(unsettled(-410, far, true, Precision::fp32), 300U);
  EXPECT_EQ(unsettled(-410, far, false, Precision::fp32), 0U);
  EXPECT_EQ(unsettled(0, 0, true, Precision::fp32), 0U) << "is constant";
  EXPECT_EQ(unsettled(nan, 1, true, Precision::fp32), 0U);
  EXPECT_EQ(unsettled(1, nan, true, Precision::fp16), 0U) << "the data are not finite";
  EXPECT_EQ(unsettled(1, inf, true, Precision::fp16), 300U) << "shift and scale are unsuitable";
  EXPECT_EQ(unsettled(nan, inf, false, Precision::fp64), 300U);
  EXPECT_EQ(unsettled(0, 0x1p70, true, Precision::fp32), 300U);
  EXPECT_EQ(unsettled(0, 0x1p70, true, Precision::fp64), 0U);
  EXPECT_EQ(unsettled(0, 0x1p30, true, Precision::fp16), 300U);
  EXPECT_EQ(unsettled(0, 0x1p30, true, Precision::bf16), 0U);
}

/// Variables that are constant do not need another scale. Those whose values have become 0 do.
TEST_F(Variables, VariablesOfLostValuesAreUnsettled) {
  std::vector<std::uint8_t> lost(300);
  lost[0] = lost[7] = lost[299] = 1;
  const auto unsettled = [&](double squares) {
    return settle(*device_, *stream_, std::vector(300, squares), std::vector(300, squares),
                  std::vector(300, 1.0), 100, false, true, Precision::fp16, lost)
        .unsettled;
  };
  EXPECT_EQ(unsettled(0), 3U);
  EXPECT_EQ(unsettled(100), 0U) << "enough values are left";
}

// ---------------------------------------------------------------- tiles

constexpr std::uint64_t rows = 9, columns = 300, ld = 304;

template <class T>
struct Tile {
  std::vector<T> elements;
  double threshold;
};

template <class T>
Tile<T> finish(device::Device& device, device::Stream& stream, Precision precision,
               const std::vector<T>& tile, const std::vector<double>& sums,
               const std::vector<double>& factors, bool correlates, bool diagonal,
               const std::vector<double>& weights = {}) {
  const auto there = test::on_device(device, stream, tile);
  const auto device_sums = test::on_device(device, stream, sums);
  const auto device_factors = test::on_device(device, stream, factors);
  const auto device_weights = test::on_device(device, stream, weights);
  const auto threshold = test::on_device(device, stream, std::vector<double>{3});
  const double* const from = sums.empty() ? nullptr : device_sums.data();
  const double* const weighted = weights.empty() ? nullptr : device_weights.data();
  stream.launch(covariance_kernel(),
                {there.data(), precision, rows, columns, ld, from, from, device_factors.data(),
                 device_factors.data(), 10, correlates ? 1 : 0.25, correlates, diagonal,
                 threshold.data(), weighted, weighted});
  return {test::from_device(stream, there), test::from_device(stream, threshold)[0]};
}

template <class T>
void expect_covariances(device::Device& device, device::Stream& stream, Precision precision) {
  std::mt19937 random(3);
  std::vector<T> tile(rows * ld);
  for (T& x : tile) x = static_cast<T>(static_cast<double>(random()) * 0x1p-20);
  std::vector<double> sums(columns), factors(columns);
  for (std::size_t v = 0; v < columns; ++v) {
    sums[v] = static_cast<double>(random()) * 0x1p-24;
    factors[v] = std::ldexp(1.0, static_cast<int>(v % 7) - 3);
  }
  factors[200] = nan;
  for (const bool centred : {false, true}) {
    const Tile<T> got = finish(device, stream, precision, tile,
                               centred ? sums : std::vector<double>(), factors, false, true);
    EXPECT_EQ(got.threshold, 3 * 8 * 8);
    for (std::uint64_t i = 0; i < tile.size(); ++i) {
      const std::uint64_t r = i / ld, c = i % ld;
      if (c >= columns) {
        ASSERT_EQ(got.elements[i], tile[i]);
        continue;
      }
      const double off = centred ? sums[r] / 10 * sums[c] : 0;
      const auto wanted =
          static_cast<T>((static_cast<double>(tile[i]) - off) * 0.25 * factors[r] * factors[c]);
      ASSERT_TRUE(got.elements[i] == wanted || (c == 200 && std::isnan(got.elements[i])))
          << got.elements[i] << " at " << r << ", " << c << ", not " << wanted;
    }
  }
}

TEST_F(Variables, TilesAreCorrectedInDoubles) {
  expect_covariances<float>(*device_, *stream_, Precision::bf16);
  expect_covariances<double>(*device_, *stream_, Precision::fp64);
}

TEST_F(Variables, ElementsWithoutWeightAreZero) {
  std::vector<double> weights(columns, 0.5);
  weights[2] = weights[299] = 0;
  const std::vector<double> tile(rows * ld, nan), factors(columns, nan);
  for (const auto& sums : {std::vector<double>(), std::vector<double>(columns, nan)}) {
    const auto got =
        finish(*device_, *stream_, Precision::fp64, tile, sums, factors, false, true, weights);
    for (std::uint64_t i = 0; i < tile.size(); ++i) {
      const std::uint64_t r = i / ld, c = i % ld;
      const bool is_zero = c < columns && (r == 2 || c == 2 || c == 299);
      EXPECT_TRUE(is_zero ? got.elements[i] == 0 : std::isnan(got.elements[i])) << r << ", " << c;
    }
  }
}

/// Clipped like numpy.corrcoef, but with a diagonal of ones. Elements beyond the tile do not
/// change.
template <class T>
void expect_correlated(device::Device& device, device::Stream& stream, Precision precision) {
  constexpr T above = T{1} + std::numeric_limits<T>::epsilon(), no_number = nan;
  constexpr T below = T{1} - std::numeric_limits<T>::epsilon(), infinite = inf;
  const std::vector<double> ones(columns, 1);
  for (const bool diagonal : {false, true}) {
    std::vector<T> tile(rows * ld, above);
    const T column[rows] = {above, -above, below, -below, 0.25, 0, infinite, -infinite, 4};
    const T on_diagonal[rows] = {above, below, T{0.9}, 0, T{1.2}, infinite, 1, T{0.5}, 2};
    std::vector<T> wanted = tile;
    for (std::uint64_t r = 0; r < rows; ++r) {
      for (std::uint64_t c = 0; c < columns; ++c) {
        const bool here = diagonal && r == c;
        const T x = here ? on_diagonal[r] : column[r];
        tile[r * ld + c] = x;
        const T one = here && x > 0 ? 1 : std::clamp(x, T{-1}, T{1});
        wanted[r * ld + c] = std::isinf(x) ? x : one;
      }
    }
    tile[3] = tile[ld] = wanted[3] = wanted[ld] = no_number;
    const Tile<T> got = finish(device, stream, precision, tile, {}, ones, true, diagonal);
    for (std::size_t i = 0; i < tile.size(); ++i) {
      const bool same =
          got.elements[i] == wanted[i] || (std::isnan(got.elements[i]) && std::isnan(wanted[i]));
      EXPECT_TRUE(same) << got.elements[i] << " at " << i << ", not " << wanted[i];
    }
  }
}

TEST_F(Variables, CorrelationsAreBetweenMinusOneAndOne) {
  expect_correlated<float>(*device_, *stream_, Precision::bf16);
  expect_correlated<double>(*device_, *stream_, Precision::fp64);
}

}  // namespace
}  // namespace shardstream::gemm
