// Split floats and sums of accumulators, on every backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/gemm/multiply/factor.hpp"
#include "kernels/gemm/panel/panel.hpp"
#include "support/backend.hpp"

namespace shardstream::gemm {
namespace {

using device::Buffer;
using device::Memory;

struct Factors : ::testing::Test {
  std::unique_ptr<device::Device> device_ = test::make_backend();
  std::unique_ptr<device::Stream> stream_ = device_->make_stream();
};

/// Finite floats that are hard to split, then floats with random bits.
std::vector<float> hard_floats(std::size_t count) {
  std::vector<float> values = {0,
                               1,
                               0x1.fffffep127f,
                               0x1.ffcp127f,
                               0x1.ffdp127f,
                               0x1.ffep127f,
                               0x1p-126f,
                               0x1p-149f,
                               0x1.fffffep-127f,
                               0x1.001p0f,
                               0x1.003p0f,
                               0x1.0017fep0f,
                               0x1.001802p0f};
  for (std::size_t i = values.size(); i-- > 0;) values.push_back(-values[i]);
  std::mt19937 random(23);
  while (values.size() < count) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(value)) values.push_back(value);
  }
  values.resize(count);
  return values;
}

/// The distance between neighbouring tf32 numbers at x.
double unit_at(double x) {
  return x == 0 ? 0x1p-136 : std::max(0x1p-136, std::ldexp(1, std::ilogb(x) - 10));
}
bool is_tf32(float x) {
  return (std::bit_cast<std::uint32_t>(x) & 0x1fffU) == 0;
}

TEST_F(Factors, SplitFloatsAreStoredInThreeBlocks) {
  for (const Side side : {Side::a, Side::b}) {
    for (const auto& [rows, columns, ld] :
         {std::array<std::uint64_t, 3>{1, 1, 1}, {13, 263, 264}, {263, 13, 13}, {24, 128, 160}}) {
      const auto values = hard_floats(rows * ld);
      const auto panel = test::on_device(*device_, *stream_, values);
      const Buffer<float> factor(*device_, Memory::device, 3 * rows * columns);
      stream_->launch(split_kernel(), {panel.data(), side, rows, columns, ld, factor.data()});
      const auto got = test::from_device(*stream_, factor);
      const auto in_block = [&](std::uint64_t block, std::uint64_t r, std::uint64_t c) {
        return side == Side::b ? got[(block * rows + r) * columns + c]
                               : got[r * 3 * columns + block * columns + c];
      };
      for (std::uint64_t r = 0; r < rows; ++r) {
        for (std::uint64_t c = 0; c < columns; ++c) {
          const double x = values[r * ld + c];
          const float low = in_block(side == Side::b ? 1 : 0, r, c), high = in_block(2, r, c);
          ASSERT_EQ(in_block(side == Side::b ? 0 : 1, r, c), high) << r << ", " << c;
          ASSERT_TRUE(is_tf32(high) && is_tf32(low) && std::isfinite(high)) << x;
          // To nearest, except next to infinity
          const bool largest = std::abs(high) == 0x1.ffcp127f;
          ASSERT_LE(std::abs(x - high), unit_at(x) / (largest ? 1 : 2)) << x;
          ASSERT_LE(std::abs(x - high - low), unit_at(x - high) / 2) << x;
        }
      }
    }
  }
}

TEST_F(Factors, NonFiniteValuesGiveNaN) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {infinity, -infinity, std::nanf("")};
  const auto panel = test::on_device(*device_, *stream_, values);
  const Buffer<float> factor(*device_, Memory::device, 9);
  stream_->launch(split_kernel(), {panel.data(), Side::a, 1, 3, 3, factor.data()});
  const auto got = test::from_device(*stream_, factor);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(got[i])) << i;
  EXPECT_EQ(got[3], infinity);
  EXPECT_EQ(got[7], -infinity);
}

template <class T>
struct Add : Factors {
  static constexpr Precision precision = std::is_same_v<T, double>  ? Precision::fp64
                                         : std::is_same_v<T, float> ? Precision::fp32x3
                                                                    : Precision::int8;
};
using Accumulators = ::testing::Types<float, double, std::int32_t>;
TYPED_TEST_SUITE(Add, Accumulators);

TYPED_TEST(Add, AddsInTheTypeOfTheAccumulator) {
  using T = TypeParam;
  for (const std::uint64_t count : {0, 1, 3, 4, 263, 100'003}) {
    for (const std::uint64_t offset : {0, 1}) {
      std::mt19937 random(29);
      std::vector<T> left(offset + count + 1), right(left.size());
      for (auto* values : {&left, &right}) {
        for (T& value : *values) {
          value = static_cast<T>(static_cast<double>(static_cast<std::int32_t>(random()) / 2) *
                                 (std::is_integral_v<T> ? 1 : 1.1));
        }
      }
      for (const int into : {0, 1, 2}) {  // to separate memory, to the left or the right operand
        const auto a = test::on_device(*this->device_, *this->stream_, left);
        const auto b = test::on_device(*this->device_, *this->stream_, right);
        const auto c = test::on_device(*this->device_, *this->stream_, left);
        const Buffer<T>& sum = into == 0 ? c : into == 1 ? a : b;
        const std::vector<T>& before = into == 2 ? right : left;
        this->stream_->launch(add_kernel(), {a.data() + offset, b.data() + offset,
                                             sum.data() + offset, this->precision, count});
        const auto got = test::from_device(*this->stream_, sum);
        for (std::uint64_t i = 0; i < got.size(); ++i) {
          const bool added = i >= offset && i < offset + count;
          ASSERT_EQ(got[i], added ? static_cast<T>(left[i] + right[i]) : before[i])
              << i << " of " << count << " from " << offset << ", into " << into;
        }
      }
    }
  }
}

}  // namespace
}  // namespace shardstream::gemm
