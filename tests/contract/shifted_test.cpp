// Centred and scaled values of panels on every backend: large integers, values that become zero,
// and values that are not finite.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/gemm/panel/panel.hpp"
#include "support/backend.hpp"

namespace shardstream::gemm {
namespace {

using Bytes = std::vector<std::byte>;

template <class T>
T value_at(const Bytes& panel, std::uint64_t index) {
  T value;
  std::memcpy(&value, panel.data() + index * sizeof(T), sizeof(T));
  return value;
}

struct Shifted : ::testing::Test {
  std::unique_ptr<device::Device> device_ = test::make_backend();
  std::unique_ptr<device::Stream> stream_ = device_->make_stream();
  Backend backend_ = backend_named(device_->info().backend);

  static constexpr std::uint64_t variables = 40, samples = 150;
  struct Got {
    std::vector<double> values;  ///< variable by variable
    std::vector<std::uint8_t> lost;
  };

  /// The panel of A or B from `data`, which is stored sample by sample. Values are only read from
  /// panels of doubles and floats.
  template <class T>
  Got made(ElementType from, Precision precision, const std::vector<T>& data, Side side,
           bool transpose, const std::vector<std::int64_t>& whole, double shift, double scale) {
    const bool of_a = side == Side::a;
    std::vector<T> stored(data.size());
    for (std::uint64_t i = 0; i < data.size(); ++i) {
      const std::uint64_t s = i / variables, v = i % variables;
      stored[of_a != transpose ? v * samples + s : i] = data[i];
    }
    const std::uint64_t rows = of_a ? variables : samples, columns = of_a ? samples : variables;
    const auto raw = test::on_device(*device_, *stream_, stored);
    const auto wholes = test::on_device(*device_, *stream_, whole);
    const auto shifts = test::on_device(*device_, *stream_, std::vector(variables, shift));
    const auto scales = test::on_device(*device_, *stream_, std::vector(variables, scale));
    const auto lost = test::on_device(*device_, *stream_, std::vector<std::uint8_t>(variables));
    const auto panel = test::on_device(
        *device_, *stream_, Bytes(rows * columns * panel_element_bytes(precision, backend_)));
    stream_->launch(canonicalize_kernel(), {.raw = raw.data(),
                                            .from = from,
                                            .transpose = transpose,
                                            .panel = panel.data(),
                                            .precision = precision,
                                            .rows = rows,
                                            .columns = columns,
                                            .ld = columns,
                                            .shift = shifts.data(),
                                            .scale = scales.data(),
                                            .side = side,
                                            .whole = whole.empty() ? nullptr : wholes.data(),
                                            .lost = lost.data()});
    const Bytes got = test::from_device(*stream_, panel);
    Got result{std::vector<double>(data.size()), test::from_device(*stream_, lost)};
    for (std::uint64_t i = 0; i < data.size(); ++i) {
      const std::uint64_t v = i / samples, s = i % samples;
      const std::uint64_t at = of_a ? i : s * variables + v;
      if (precision == Precision::fp64) {
        result.values[i] = value_at<double>(got, at);
      } else if (precision == Precision::fp32) {
        result.values[i] = static_cast<double>(value_at<float>(got, at));
      }
    }
    return result;
  }

  /// Calls f(side, transpose).
  template <class F>
  void for_ways(F&& f) {
    for (const Side side : {Side::a, Side::b}) {
      for (const bool transpose : {false, true}) f(side, transpose);
    }
  }
};

/// Differences of integers are exact if a double holds them, and never wrap around.
TEST_F(Shifted, LargeIntegersAreSubtractedBeforeTheyBecomeDoubles) {
  std::vector<std::int64_t> whole(variables), data(variables * samples);
  for (std::uint64_t v = 0; v < variables; ++v) {
    whole[v] = v == 3   ? INT64_MIN
               : v == 4 ? INT64_MAX
                        : 1'700'000'000'000'000'001 -
                              100'000'000'000'000'000 * static_cast<std::int64_t>(v);
    for (std::uint64_t s = 0; s < samples; ++s) {
      const auto by = static_cast<std::int64_t>(s) - (v == 3 ? 0 : v == 4 ? 200 : 70);
      data[s * variables + v] = whole[v] + by;
    }
  }
  data[3] = INT64_MAX;                  // 2^64 - 1 above
  data[4] = INT64_MIN;                  // and below
  data[variables + 5] = INT64_MIN + 7;  // some 2^63 below
  for_ways([&](Side side, bool transpose) {
    for (const Precision precision : {Precision::fp64, Precision::fp32}) {
      const Got got = made(ElementType::i64, precision, data, side, transpose, whole, 0.25, 2);
      for (std::uint64_t i = 0; i < data.size(); ++i) {
        const std::uint64_t v = i / samples, s = i % samples;
        const auto difference =
            static_cast<long double>(data[s * variables + v]) - static_cast<long double>(whole[v]);
        const long double exact = 2 * (difference - 0.25L);
        const auto wide = static_cast<double>(exact), narrow = double{static_cast<float>(exact)};
        const double wanted = precision == Precision::fp64 ? wide : narrow;
        ASSERT_EQ(got.values[i], wanted) << v << " at " << s;
      }
    }
  });
}

/// Only values that are not zero, and become zero or have squares of zero, mark their variable.
TEST_F(Shifted, VariablesOfVanishingValuesAreMarked) {
  std::vector<double> data(variables * samples, 0.5);
  data[variables + 2] = 0.5 + 1e-9;
  data[5 * variables + 7] = 0.5 - 1e-9;
  data[6 * variables + 8] = std::numeric_limits<double>::infinity();
  data[6 * variables + 9] = 1e60;
  for_ways([&](Side side, bool transpose) {
    const Got half = made(ElementType::f64, Precision::fp16, data, side, transpose, {}, 0.5, 1);
    const Got wide = made(ElementType::f64, Precision::fp32, data, side, transpose, {}, 0.5, 1);
    for (std::uint64_t v = 0; v < variables; ++v) {
      EXPECT_EQ(half.lost[v], v == 2 || v == 7 ? 1 : 0) << v;
      EXPECT_EQ(wide.lost[v], 0) << v;
    }
    EXPECT_TRUE(std::isnan(wide.values[8 * samples + 6])) << "the data are not finite";
    EXPECT_EQ(wide.values[9 * samples + 6], std::numeric_limits<double>::infinity());
  });
}

}  // namespace
}  // namespace shardstream::gemm
