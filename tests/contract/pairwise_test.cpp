// Pairwise products on every backend: panels with planes, tiles from moments, counts of variables,
// and the check of counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/gemm/check.hpp"
#include "kernels/gemm/moments.hpp"
#include "kernels/gemm/panel/pairwise.hpp"
#include "kernels/gemm/panel/panel.hpp"
#include "kernels/gemm/panel/variables.hpp"
#include "support/backend.hpp"

namespace shardstream::gemm {
namespace {

using Bytes = std::vector<std::byte>;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

struct Pairs : ::testing::Test {
  std::unique_ptr<device::Device> device_ = test::make_backend();
  std::unique_ptr<device::Stream> stream_ = device_->make_stream();
  const Backend backend_ = backend_named(device_->info().backend);
};

TEST(Moments, ThatAreNotNeededAreLeftOut) {
  EXPECT_EQ(Moments{}.results(), 1U);
  EXPECT_EQ(pair_moments(false, false).count, 2U);
  EXPECT_EQ(pair_moments(true, false).count, 4U);
  EXPECT_EQ(pair_moments(false, true).count, 4U);
  const Moments all = pair_moments(true, true);
  EXPECT_EQ(all.count, 6U);
  EXPECT_EQ(all.planes, 3U);
  EXPECT_EQ(all.results(), 2U);
  EXPECT_EQ(all.index_of(products_of_pair), 0U);
  EXPECT_EQ(all.index_of(counts_of_pair), 1U);
  EXPECT_EQ(pair_moments(false, false).index_of(row_sums_of_pair), 2U);
}

// ---------------------------------------------------------------- panels

/// A panel, and the options that it was made with.
struct Layout {
  Side side;
  bool transposed, changes;
  std::uint64_t variables, samples, valid_variables, valid_samples, edge;

  std::uint64_t rows() const { return side == Side::a ? variables : samples; }
  std::uint64_t columns() const { return side == Side::a ? samples : variables; }
};

class PanelsWithPlanes : public Pairs {
 protected:
  template <class T>
  Bytes panel(const Layout& of, Precision precision, const std::vector<T>& values, Planes planes) {
    const bool a = of.side == Side::a;
    const std::uint64_t rows = of.rows() * (a ? planes.count : 1);
    const std::uint64_t ld = of.columns() * (a ? 1 : planes.count) + 4;
    const auto raw = test::on_device(*device_, *stream_, values);
    std::vector<double> shift(of.variables), scale(of.variables);
    for (std::size_t v = 0; v < of.variables; ++v) {
      shift[v] = static_cast<double>(v % 5) - 1.5;
      scale[v] = std::ldexp(1.0, static_cast<int>(v % 3) - 1);
    }
    const auto shifts = test::on_device(*device_, *stream_, shift);
    const auto scales = test::on_device(*device_, *stream_, scale);
    const auto made = test::on_device(
        *device_, *stream_,
        Bytes(rows * ld * panel_element_bytes(precision, backend_), std::byte{0x33}));
    stream_->launch(canonicalize_kernel(),
                    {.raw = raw.data(),
                     .from = type_of<T>(),
                     .transpose = of.transposed,
                     .panel = made.data(),
                     .precision = precision,
                     .rows = of.rows(),
                     .columns = of.columns(),
                     .ld = ld,
                     .shift = of.changes ? shifts.data() : nullptr,
                     .scale = of.changes ? scales.data() : nullptr,
                     .side = of.side,
                     .valid_rows = a ? of.valid_variables : of.valid_samples,
                     .valid_columns = a ? of.valid_samples : of.valid_variables,
                     .planes = planes});
    return test::from_device(*stream_, made);
  }

  template <class T>
  static ElementType type_of() {
    if constexpr (std::is_same_v<T, double>) return ElementType::f64;
    if constexpr (std::is_same_v<T, float>) return ElementType::f32;
    return ElementType::i32;
  }

  /// The element of a panel for a variable and a sample.
  double element(const Bytes& panel, const Layout& of, Precision precision, const Planes& planes,
                 Plane plane, std::uint64_t variable, std::uint64_t sample) const {
    const std::uint64_t place = planes.place(variable, plane);
    const bool a = of.side == Side::a;
    const std::uint64_t ld = of.columns() * (a ? 1 : planes.count) + 4;
    const std::uint64_t at = a ? place * ld + sample : sample * ld + place;
    const std::size_t bytes = panel_element_bytes(precision, backend_);
    const std::byte* const from = panel.data() + at * bytes;
    if (bytes == 8) return read<double>(from);
    if (bytes == 4) return read<float>(from);
    if (precision == Precision::bf16) {
      return std::bit_cast<float>(std::uint32_t{read<std::uint16_t>(from)} << 16);
    }
    const auto half = read<std::uint16_t>(from);  // fp16; values here are normal numbers or 0
    const double size =
        (half & 0x7fff) == 0 ? 0 : std::ldexp(1024 + (half & 1023), ((half >> 10) & 31) - 25);
    return (half & 0x8000) != 0 ? -size : size;
  }

  template <class V>
  static V read(const std::byte* from) {
    V value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }

  /// Compares each plane with the ordinary panel of the same data.
  template <class T>
  void expect_planes(const Layout& of, Precision precision, std::uint64_t count) {
    std::mt19937 random(7);
    std::vector<T> values(of.valid_variables * of.valid_samples);
    for (T& x : values) {
      x = static_cast<T>(random() % 1000) / 8 - 60;
      if (std::is_floating_point_v<T> && random() % 4 == 0) x = static_cast<T>(nan);
    }
    const Planes planes{count, of.edge}, one{};
    const Bytes got = panel(of, precision, values, planes),
                plain = panel(of, precision, values, one);
    const bool by_samples = (of.side == Side::b) != of.transposed;  // stored sample by sample
    for (std::uint64_t v = 0; v < of.variables; ++v) {
      for (std::uint64_t s = 0; s < of.samples; ++s) {
        const bool valid = v < of.valid_variables && s < of.valid_samples;
        const std::uint64_t at = by_samples ? s * of.valid_variables + v : v * of.valid_samples + s;
        const bool present = valid && values[at] == values[at];
        const double x = present ? element(plain, of, precision, one, Plane::values, v, s) : 0;
        ASSERT_EQ(element(got, of, precision, planes, Plane::values, v, s), x) << v << " " << s;
        ASSERT_EQ(element(got, of, precision, planes, Plane::mask, v, s), present ? 1 : 0)
            << v << " " << s;
        if (count < 3) continue;
        const double square = precision == Precision::fp64 ? x * x : static_cast<float>(x * x);
        ASSERT_EQ(element(got, of, precision, planes, Plane::squares, v, s), square);
      }
    }
  }
};

TEST_F(PanelsWithPlanes, HaveValuesMasksAndSquares) {
  const Layout layouts[] = {
      {Side::b, false, true, 32, 41, 27, 33, 16},    {Side::b, true, true, 48, 70, 48, 70, 16},
      {Side::b, false, false, 136, 19, 130, 19, 68}, {Side::b, true, false, 20, 5, 1, 4, 4},
      {Side::a, false, true, 32, 700, 30, 650, 16},  {Side::a, true, true, 96, 64, 90, 61, 32},
      {Side::a, true, false, 8, 130, 8, 130, 8}};
  for (const Layout& of : layouts) {
    for (const Precision precision : {Precision::fp64, Precision::fp32, Precision::fp32x3}) {
      expect_planes<float>(of, precision, 3);
      expect_planes<double>(of, precision, 2);
    }
    for (const Precision precision : {Precision::tf32, Precision::bf16, Precision::fp16}) {
      expect_planes<double>(of, precision, 2);
      expect_planes<std::int32_t>(of, precision, 2);
    }
  }
}

/// The sums of the masks become the numbers of samples, in both panels.
TEST_F(PanelsWithPlanes, CountTheValuesOfEachVariable) {
  const Planes planes{2, 8};
  constexpr std::uint64_t variables = 24, samples = 3000, count = 2 * variables;
  std::mt19937 random(3);
  std::vector<float> values(samples * variables);
  std::vector<double> sums(variables), counts(variables);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t v = i % variables;
    values[i] = static_cast<float>(random() % 16) - 8;
    if (random() % variables <= v) values[i] = NAN;
    if (std::isnan(values[i])) continue;
    sums[v] += values[i];
    counts[v] += 1;
  }
  const Layout of{Side::b, false, false, variables, samples, variables, samples, planes.edge};
  const Bytes made = panel(of, Precision::fp32, values, planes);
  const auto there = test::on_device(*device_, *stream_, made);
  const auto zeros = [&](std::size_t size) {
    return test::on_device(*device_, *stream_, std::vector<double>(size));
  };
  const auto parts = zeros(2 * count), scratch = zeros(2 * count * (samples / samples_a_sum + 1));
  stream_->launch(variable_sums_kernel(),
                  {there.data(), Precision::fp32, Side::b, count, samples, count + 4, parts.data(),
                   parts.data() + count, scratch.data(), true});
  const auto total = zeros(variables), squares = zeros(variables), factors = zeros(variables),
             found = zeros(variables);
  const auto scales = test::on_device(*device_, *stream_, std::vector<double>(variables, 2));
  stream_->launch(settle_kernel(), {.parts = parts.data(),
                                    .layers = 1,
                                    .layer_pitch = 0,
                                    .segments = 1,
                                    .segment_pitch = 0,
                                    .squares_offset = count,
                                    .variables = variables,
                                    .samples = nan,
                                    .center = true,
                                    .scale = false,
                                    .precision = Precision::fp32,
                                    .scales = scales.data(),
                                    .sums = total.data(),
                                    .squares = squares.data(),
                                    .factors = factors.data(),
                                    .unsettled = nullptr,
                                    .planes = planes,
                                    .counts = found.data()});
  EXPECT_EQ(test::from_device(*stream_, total), sums);
  EXPECT_EQ(test::from_device(*stream_, found), counts);
  EXPECT_EQ(test::from_device(*stream_, factors), std::vector<double>(variables, 0.5));
  EXPECT_EQ(counts.back(), 0) << "has no value";
}

// ---------------------------------------------------------------- tiles

constexpr std::uint64_t rows = 7, columns = 261, ld = 264, size = rows * ld;

/// Moments of pairs that are possible, one after another: P, N, S_ij, S_ji, Q_ij, Q_ji.
template <class T>
std::vector<T> possible_moments() {
  std::mt19937 random(5);
  std::vector<T> all(6 * size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint64_t n = random() % 5;  // some pairs have no samples
    const auto value = [&] { return static_cast<double>(random() % 64) / 8 - 4; };
    for (std::uint64_t s = 0; s < n; ++s) {
      const double x = value(), y = i % 11 == 0 ? 2 : value();  // some are constant
      const double sums[] = {x * y, 1, x, y, x * x, y * y};
      for (std::size_t m = 0; m < 6; ++m) all[m * size + i] += static_cast<T>(sums[m]);
    }
  }
  return all;
}

template <class T>
struct Finished {
  std::vector<T> c;
  std::vector<std::int64_t> n;
  double sensitivity;
};

template <class T>
Finished<T> finish(Pairs& on, const std::vector<T>& moments, bool centers, bool scales,
                   Divisor divisor, bool diagonal, const std::vector<double>& weight = {}) {
  const auto there = test::on_device(*on.device_, *on.stream_, moments);
  std::vector<double> factor(columns);
  for (std::size_t v = 0; v < columns; ++v) factor[v] = std::ldexp(1.0, static_cast<int>(v % 4));
  const auto factors = test::on_device(*on.device_, *on.stream_, factor);
  const auto weights = test::on_device(*on.device_, *on.stream_, weight);
  const auto sensitivity = test::on_device(*on.device_, *on.stream_, std::vector<double>{0});
  const auto at = [&](std::size_t moment, bool needed) {
    return needed ? there.data() + moment * size : nullptr;
  };
  on.stream_->launch(pairwise_kernel(),
                     {.products = there.data(),
                      .counts = there.data() + size,
                      .row_sums = at(2, centers),
                      .column_sums = at(3, centers),
                      .row_squares = at(4, scales),
                      .column_squares = at(5, scales),
                      .precision = std::is_same_v<T, double> ? Precision::fp64 : Precision::fp32,
                      .rows = rows,
                      .columns = columns,
                      .ld = ld,
                      .k = 2000,
                      .row_factors = factors.data(),
                      .column_factors = factors.data(),
                      .divisor = divisor,
                      .diagonal = diagonal,
                      .sensitivity = sensitivity.data(),
                      .row_weights = weight.empty() ? nullptr : weights.data(),
                      .column_weights = weight.empty() ? nullptr : weights.data()});
  const std::vector<T> got = test::from_device(*on.stream_, there);
  Finished<T> made{
      {got.begin(), got.begin() + size}, {}, test::from_device(*on.stream_, sensitivity)[0]};
  using Count = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  for (std::size_t i = 0; i < size; ++i) made.n.push_back(std::bit_cast<Count>(got[size + i]));
  return made;
}

/// The element of C of the pair at index i, written as in a textbook.
template <class T>
double expected(const std::vector<T>& moments, std::size_t i, bool centers, bool scales,
                Divisor divisor, bool diagonal) {
  const auto sum = [&](std::size_t m) { return static_cast<double>(moments[m * size + i]); };
  const double n = sum(1), about = centers ? 1 : 0;
  if (n == 0) return nan;
  const double product = sum(0) - about * sum(2) * sum(3) / n;
  const std::size_t r = i / ld, c = i % ld;
  if (scales) {
    const double x = sum(4) - about * sum(2) * sum(2) / n, y = sum(5) - about * sum(3) * sum(3) / n;
    if (x < 1e-6 || y < 1e-6) return nan;
    const double value = std::clamp(product / std::sqrt(x * y), -1.0, 1.0);
    return diagonal && r == c && value > 0 ? 1 : value;
  }
  const double by = divisor == Divisor::one ? 1 : divisor == Divisor::n ? n : n - 1;
  return by > 0 ? product / by * std::ldexp(1.0, static_cast<int>(r % 4 + c % 4)) : nan;
}

template <class T>
void expect_tiles(Pairs& on) {
  const std::vector<T> moments = possible_moments<T>();
  for (const bool centers : {false, true}) {
    for (const bool scales : {false, true}) {
      for (const Divisor divisor : {Divisor::one, Divisor::n, Divisor::n_minus_1}) {
        const bool diagonal = divisor == Divisor::n;
        const Finished<T> got = finish(on, moments, centers, scales, divisor, diagonal);
        double largest = 0;
        for (std::size_t i = 0; i < size; ++i) {
          if (i % ld >= columns) {
            ASSERT_EQ(got.c[i], moments[i]) << "the padding changes";
            continue;
          }
          ASSERT_EQ(got.n[i], static_cast<std::int64_t>(moments[size + i]));
          const double wanted = expected(moments, i, centers, scales, divisor, diagonal);
          ASSERT_EQ(std::isnan(got.c[i]), std::isnan(wanted)) << i;
          if (std::isnan(wanted)) continue;
          ASSERT_NEAR(got.c[i], wanted, 4e-7 * std::max(1.0, std::abs(wanted))) << i;
          if (!scales) largest = std::max(largest, 1 / static_cast<double>(got.n[i]));
        }
        EXPECT_GT(got.sensitivity, 0);
        EXPECT_GE(got.sensitivity, largest);
        EXPECT_TRUE(std::isfinite(got.sensitivity));
      }
    }
  }
}

TEST_F(Pairs, BecomeCovariancesAndCorrelations) {
  expect_tiles<double>(*this);
  expect_tiles<float>(*this);
}

/// A variance that is as small as the rounding errors of Q and S makes no correlation.
TEST_F(Pairs, WithoutAVarianceHaveNoCorrelation) {
  std::vector<float> moments(6 * size);
  const float n = 1000, mean = 30;
  const float sums[] = {n * mean * mean, n, n * mean, n * mean, n * mean * mean, n * mean * mean};
  for (std::size_t m = 0; m < 6; ++m) std::fill_n(moments.begin() + m * size, size, sums[m]);
  moments[4 * size] += 80;        // below the limit, 90
  moments[4 * size + 1] += 1000;  // is certain
  moments[5 * size + 1] += 1000;
  const auto got = finish(*this, moments, true, true, Divisor::n, false);
  EXPECT_TRUE(std::isnan(got.c[0]));
  EXPECT_TRUE(std::isnan(got.c[2]));
  EXPECT_EQ(got.c[1], 0);
  EXPECT_TRUE(std::isfinite(got.sensitivity));
}

TEST_F(Pairs, WithValuesThatAreNotFiniteStayNan) {
  std::vector<double> moments = possible_moments<double>();
  std::fill_n(moments.begin() + size, size, 4.0);
  moments[0] = nan;
  moments[2 * size + 1] = inf;
  const auto got = finish(*this, moments, true, false, Divisor::one, true);
  EXPECT_TRUE(std::isnan(got.c[0]));
  EXPECT_FALSE(std::isfinite(got.c[1]));
  EXPECT_TRUE(std::isfinite(got.c[2]));
  EXPECT_FALSE(std::isnan(got.sensitivity));
}

TEST_F(Pairs, WithoutWeightAreZero) {
  std::vector<double> weights(columns, 0.5);
  weights[2] = weights[260] = 0;
  const std::vector<double> moments(6 * size, nan);
  const auto got = finish(*this, moments, true, false, Divisor::one, true, weights);
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t r = i / ld, c = i % ld;
    const bool is_zero = c < columns && (r == 2 || c == 2 || c == 260);
    EXPECT_TRUE(is_zero ? got.c[i] == 0 : std::isnan(got.c[i])) << r << ", " << c;
  }
}

// ---------------------------------------------------------------- checks

/// A wrong count is found even if it is within the rounding errors of floats, and the verdicts on
/// the moments of a tile are added.
TEST_F(Pairs, AreCheckedMomentByMoment) {
  constexpr std::uint64_t edge = 64, k = 100'000, seed = 9;
  std::vector<float> counts(edge * edge, 50'000);
  const auto right = test::on_device(*device_, *stream_, counts);
  counts[5 * edge + 3] += 1;
  const auto wrong = test::on_device(*device_, *stream_, counts);
  std::vector<double> z(edge);
  for (double& row : z) {
    for (std::uint64_t c = 0; c < edge; ++c) row += 50'000 * sign_of(seed, c);
  }
  const auto references = test::on_device(*device_, *stream_, z);
  const auto row_squares = test::on_device(*device_, *stream_, std::vector<double>(edge, 1e5));
  const auto column_squares = test::on_device(*device_, *stream_, std::vector<double>{6.4e6});
  const device::Buffer<RowVerdict> row_verdicts(*device_, device::Memory::device, edge);
  const device::Buffer<TileVerdict> verdict(*device_, device::Memory::device, 1);
  const auto check = [&](const device::Buffer<float>& tile, bool are_counts, bool joins) {
    const CheckTileArgs args{.tile = tile.data(),
                             .precision = Precision::fp32,
                             .rows = edge,
                             .columns = edge,
                             .ld = edge,
                             .seed = seed,
                             .first_column = 0,
                             .k = k,
                             .z = references.data(),
                             .z_stride = 1,
                             .row_squares = row_squares.data(),
                             .column_squares = column_squares.data(),
                             .row_verdicts = row_verdicts.data(),
                             .verdict = verdict.data(),
                             .counts = are_counts,
                             .joins = joins};
    stream_->launch(check_rows_kernel(), args);
    stream_->launch(verdict_kernel(), args);
    return test::from_device(*stream_, verdict)[0];
  };
  EXPECT_EQ(check(wrong, false, false).failures, 0U) << "is within the rounding errors";
  EXPECT_EQ(check(wrong, true, false).failures, 1U);
  const TileVerdict first = check(right, false, false);
  const TileVerdict joined = check(wrong, true, true);
  EXPECT_EQ(joined.failures, 1U);
  EXPECT_EQ(joined.worst, 2);
  EXPECT_EQ(joined.worst_row, 5U);
  EXPECT_EQ(joined.detection_threshold, first.detection_threshold) << "that of the other sums";
  EXPECT_EQ(check(wrong, true, true).failures, 2U);
  EXPECT_EQ(check(right, false, false).failures, 0U) << "begins again";
}

}  // namespace
}  // namespace shardstream::gemm
