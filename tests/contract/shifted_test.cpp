// Changed values of panels on every backend: large integers, values that become zero, values that
// are not finite, shifts and factors of samples.
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
  /// One value for each variable, or for each sample. Empty: none.
  struct Changes {
    std::vector<double> shift, scale;
    std::vector<std::int64_t> whole = {};
    std::vector<double> factor = {};
    bool shifts_samples = false;
  };
  static Changes of_variables(double shift, double scale) {
    return {.shift = std::vector(variables, shift), .scale = std::vector(variables, scale)};
  }

  /// The panel of A or B from `data`, which is stored sample by sample. Values are only read from
  /// panels of doubles and floats.
  template <class T>
  Got made(ElementType from, Precision precision, const std::vector<T>& data, Side side,
           bool transpose, const Changes& changes) {
    const bool of_a = side == Side::a;
    std::vector<T> stored(data.size());
    for (std::uint64_t i = 0; i < data.size(); ++i) {
      const std::uint64_t s = i / variables, v = i % variables;
      stored[of_a != transpose ? v * samples + s : i] = data[i];
    }
    const std::uint64_t rows = of_a ? variables : samples, columns = of_a ? samples : variables;
    const auto raw = test::on_device(*device_, *stream_, stored);
    const auto wholes = test::on_device(*device_, *stream_, changes.whole);
    const auto shifts = test::on_device(*device_, *stream_, changes.shift);
    const auto scales = test::on_device(*device_, *stream_, changes.scale);
    const auto factors = test::on_device(*device_, *stream_, changes.factor);
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
                                            .whole = wholes.data(),
                                            .lost = lost.data(),
                                            .factor = factors.data(),
                                            .shifts_samples = changes.shifts_samples});
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
  Changes changes = of_variables(0.25, 2);
  changes.whole = whole;
  for_ways([&](Side side, bool transpose) {
    for (const Precision precision : {Precision::fp64, Precision::fp32}) {
      const Got got = made(ElementType::i64, precision, data, side, transpose, changes);
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
    const Changes changes = of_variables(0.5, 1);
    const Got half = made(ElementType::f64, Precision::fp16, data, side, transpose, changes);
    const Got wide = made(ElementType::f64, Precision::fp32, data, side, transpose, changes);
    for (std::uint64_t v = 0; v < variables; ++v) {
      EXPECT_EQ(half.lost[v], v == 2 || v == 7 ? 1 : 0) << v;
      EXPECT_EQ(wide.lost[v], 0) << v;
    }
    EXPECT_TRUE(std::isnan(wide.values[8 * samples + 6])) << "the data are not finite";
    EXPECT_EQ(wide.values[9 * samples + 6], std::numeric_limits<double>::infinity());
  });
}

/// A factor of 0 leaves a sample out, and a scale of 0 a variable, whatever their values are.
TEST_F(Shifted, FactorsMultiplyAndZerosLeaveOut) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> data(variables * samples);
  for (std::uint64_t i = 0; i < data.size(); ++i) data[i] = static_cast<double>(i % 101) / 7;
  for (std::uint64_t v = 0; v < variables; ++v) data[5 * variables + v] = nan;
  for (std::uint64_t s = 0; s < samples; ++s) data[s * variables + 3] = nan;
  data[7 * variables + 2] = nan;
  Changes changes = of_variables(1.5, 0.5);
  changes.scale[3] = 0;
  for (std::uint64_t s = 0; s < samples; ++s) {
    changes.factor.push_back(s == 5 ? 0 : 1 + static_cast<double>(s) / 9);
  }
  for_ways([&](Side side, bool transpose) {
    for (const Precision precision : {Precision::fp64, Precision::fp32}) {
      const Got got = made(ElementType::f64, precision, data, side, transpose, changes);
      for (std::uint64_t i = 0; i < data.size(); ++i) {
        const std::uint64_t v = i / samples, s = i % samples;
        const double x = (data[s * variables + v] - 1.5) * 0.5 * changes.factor[s];
        const double wanted = precision == Precision::fp64 ? x : double{static_cast<float>(x)};
        if (v == 2 && s == 7) {
          ASSERT_TRUE(std::isnan(got.values[i]));
        } else {
          ASSERT_EQ(got.values[i], v == 3 || s == 5 ? 0 : wanted) << v << " at " << s;
        }
      }
      EXPECT_EQ(got.lost, std::vector<std::uint8_t>(variables));
    }
  });
}

TEST_F(Shifted, ShiftsCanBeThoseOfSamples) {
  Changes changes = of_variables(0, 4);
  changes.shifts_samples = true;
  changes.shift.clear();
  std::vector<std::int64_t> data(variables * samples);
  for (std::uint64_t s = 0; s < samples; ++s) {
    const auto number = static_cast<std::int64_t>(s);
    changes.whole.push_back(INT64_MAX / 200 * number);
    changes.shift.push_back(static_cast<double>(s) / 8);
    for (std::uint64_t v = 0; v < variables; ++v) {
      data[s * variables + v] = changes.whole[s] + number - static_cast<std::int64_t>(v);
    }
  }
  for_ways([&](Side side, bool transpose) {
    const Got got = made(ElementType::i64, Precision::fp64, data, side, transpose, changes);
    for (std::uint64_t i = 0; i < data.size(); ++i) {
      const auto v = static_cast<double>(i / samples), s = static_cast<double>(i % samples);
      ASSERT_EQ(got.values[i], (s - v - s / 8) * 4) << v << " at " << s;
    }
  });
}

}  // namespace
}  // namespace shardstream::gemm
