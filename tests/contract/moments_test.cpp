// Sums and squares of variables, on every backend.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/gemm/panel/moments.hpp"
#include "support/backend.hpp"

namespace shardstream::gemm {
namespace {

struct MomentsKernel : ::testing::Test {
  std::unique_ptr<device::Device> device_ = test::make_backend();
  std::unique_ptr<device::Stream> stream_ = device_->make_stream();

  struct Got {
    std::vector<double> sums, squares;
  };
  /// Of the first `times` times: the first overwrites, the others add.
  template <class T>
  Got moments(ElementType from, const std::vector<T>& raw, bool rows, std::uint64_t variables,
              std::uint64_t samples, std::uint64_t ld, const std::vector<double>& shift,
              int times) {
    const auto there = test::on_device(*device_, *stream_, raw);
    const auto shift_there = test::on_device(*device_, *stream_, shift);
    const std::vector<double> before(variables + 1, 77);
    const auto sums = test::on_device(*device_, *stream_, before);
    const auto squares = test::on_device(*device_, *stream_, before);
    for (int i = 0; i < times; ++i) {
      stream_->launch(moments_kernel(), {there.data(), from, rows, variables, samples, ld,
                                         shift_there.data(), sums.data(), squares.data(), i == 0});
    }
    Got got{test::from_device(*stream_, sums), test::from_device(*stream_, squares)};
    EXPECT_EQ(got.sums.back(), 77);
    EXPECT_EQ(got.squares.back(), 77);
    return got;
  }

  /// Small whole numbers: every order of additions is exact.
  template <class T>
  void expect_exact(ElementType from, std::uint64_t variables, std::uint64_t samples) {
    std::mt19937 random(11);
    for (const bool rows : {false, true}) {
      const std::uint64_t ld = (rows ? samples : variables) + 3;
      std::vector<T> raw((rows ? variables : samples) * ld);
      for (T& x : raw) x = static_cast<T>(random() % 100);
      std::vector<double> shift(variables);
      for (double& x : shift) x = static_cast<double>(random() % 100);
      const Got got = moments(from, raw, rows, variables, samples, ld, shift, 2);
      for (std::uint64_t v = 0; v < variables; ++v) {
        double sum = 0, squares = 0;
        for (std::uint64_t s = 0; s < samples; ++s) {
          const double d = static_cast<double>(raw[rows ? v * ld + s : s * ld + v]) - shift[v];
          sum += d;
          squares += d * d;
        }
        ASSERT_EQ(got.sums[v], 2 * sum) << name_of(from) << " " << variables << " x " << samples;
        ASSERT_EQ(got.squares[v], 2 * squares) << name_of(from) << " at " << v << rows;
      }
    }
  }
};

TEST_F(MomentsKernel, WholeNumbersAreExactInBothLayouts) {
  constexpr std::uint64_t shapes[][2] = {{1, 1},    {1, 70'001}, {3, 9001},  {33, 263},
                                         {263, 33}, {1031, 2},   {128, 512}, {600, 1}};
  for (const auto& [variables, samples] : shapes) {
    expect_exact<float>(ElementType::f32, variables, samples);
    expect_exact<double>(ElementType::f64, variables, samples);
    expect_exact<std::int32_t>(ElementType::i32, variables, samples);
    expect_exact<std::int64_t>(ElementType::i64, variables, samples);
    expect_exact<std::uint8_t>(ElementType::u8, variables, samples);
  }
}

/// A value that is not finite stays in its variable.
TEST_F(MomentsKernel, NonFiniteValuesStayInTheirVariable) {
  constexpr std::uint64_t variables = 40, samples = 100;
  for (const bool rows : {false, true}) {
    std::vector<float> raw(variables * samples, 1);
    const auto at = [&](std::uint64_t v, std::uint64_t s) -> float& {
      return raw[rows ? v * samples + s : s * variables + v];
    };
    at(5, 99) = NAN;
    at(39, 0) = HUGE_VALF;
    const Got got = moments(ElementType::f32, raw, rows, variables, samples,
                            rows ? samples : variables, std::vector<double>(variables, 0.5), 1);
    for (std::uint64_t v = 0; v < variables; ++v) {
      EXPECT_EQ(std::isfinite(got.sums[v]), v != 5 && v != 39) << v;
      EXPECT_EQ(std::isfinite(got.squares[v]), v != 5 && v != 39) << v;
    }
    EXPECT_EQ(got.sums[0], 50);
    EXPECT_EQ(got.squares[0], 25);
  }
}

}  // namespace
}  // namespace shardstream::gemm
