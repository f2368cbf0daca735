// The generators: known values, ranges, and independence of the division into pieces.
#include "kernels/data/generate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

namespace shardstream {
namespace {

template <class T>
std::vector<T> generated(Generator generator, ElementType type, std::uint64_t first,
                         std::uint64_t count, std::uint64_t seed = 1) {
  std::vector<T> values(count);
  generate(generator, type, seed, first, count, reinterpret_cast<std::byte*>(values.data()));
  return values;
}

TEST(Generate, MixIsSplitMix64) {
  // The first outputs of the published generator for state 0.
  EXPECT_EQ(mix(0x9e3779b97f4a7c15u), 0xe220a8397b1dcdafu);
  EXPECT_EQ(mix(0x9e3779b97f4a7c15u * 2), 0x6e789e6aa1b965f4u);
}

TEST(Generate, AnyDivisionOfARangeGivesTheSameElements) {
  constexpr std::uint64_t count = 1000;
  for (const auto generator : {Generator::uniform, Generator::ramp}) {
    for (const auto type : all_element_types) {
      with_element_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const std::uint64_t first = (std::uint64_t{1} << 33) - 17;
        const auto whole = generated<T>(generator, type, first, count);
        for (const std::uint64_t cut : {1u, 7u, 64u, 999u}) {
          const auto rest = generated<T>(generator, type, first + cut, count - cut);
          EXPECT_EQ(0, std::memcmp(whole.data() + cut, rest.data(), rest.size() * sizeof(T)));
        }
      });
    }
  }
}

TEST(Generate, UniformIsFrozen) {
  // Results of earlier versions can be compared only if these bits never change.
  EXPECT_EQ(
      std::bit_cast<std::uint32_t>(generated<float>(Generator::uniform, ElementType::f32, 0, 1)[0]),
      0x3f03cd62u);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(
                generated<double>(Generator::uniform, ElementType::f64, 0, 1)[0]),
            0x3fe079ac572da2fau);
  EXPECT_EQ(generated<std::int64_t>(Generator::uniform, ElementType::i64, 0, 1)[0],
            -8949388335976556680);
}

TEST(Generate, UniformFillsItsRange) {
  constexpr std::uint64_t count = 1 << 16;
  double sum = 0, min = 1, max = 0;
  for (const double x : generated<double>(Generator::uniform, ElementType::f64, 0, count)) {
    sum += x;
    min = std::min(min, x);
    max = std::max(max, x);
  }
  // The mean of n uniform numbers has a standard deviation of 1/sqrt(12 n); six of them are
  // allowed.
  EXPECT_NEAR(sum / count, 0.5, 6 * 0.2887 / 256);
  EXPECT_GE(min, 0.0);
  EXPECT_LT(min, 0.001);
  EXPECT_LT(max, 1.0);
  EXPECT_GT(max, 0.999);
  for (const float x : generated<float>(Generator::uniform, ElementType::f32, 0, count)) {
    ASSERT_TRUE(x >= 0 && x < 1);
    ASSERT_EQ(x * 0x1p24f, static_cast<float>(static_cast<std::int32_t>(x * 0x1p24f)));
  }
  std::vector<int> seen(256);
  for (const auto x : generated<std::uint8_t>(Generator::uniform, ElementType::u8, 0, count)) {
    ++seen[x];
  }
  for (const int n : seen) EXPECT_NEAR(n, 256, 6 * 16);
  std::vector<int> seen_signed(256);
  for (const auto x : generated<std::int8_t>(Generator::uniform, ElementType::i8, 0, count)) {
    ++seen_signed[static_cast<std::size_t>(x + 128)];
  }
  for (const int n : seen_signed) EXPECT_NEAR(n, 256, 6 * 16);
  int negative = 0;
  for (const auto x : generated<std::int32_t>(Generator::uniform, ElementType::i32, 0, count)) {
    negative += x < 0;
  }
  EXPECT_NEAR(negative, count / 2, 6 * 128);
}

TEST(Generate, SeedsGiveUnrelatedSequences) {
  const auto one = generated<std::int64_t>(Generator::uniform, ElementType::i64, 0, 1000, 1);
  const auto two = generated<std::int64_t>(Generator::uniform, ElementType::i64, 0, 1000, 2);
  for (const auto x : one) EXPECT_EQ(std::count(two.begin(), two.end(), x), 0);
}

TEST(Generate, RampWrapsAtTheTypesExactRange) {
  const auto at = [](ElementType type, std::uint64_t index, auto expected) {
    EXPECT_EQ(generated<decltype(expected)>(Generator::ramp, type, index, 1)[0], expected)
        << word_of(type) << " at " << index;
  };
  at(ElementType::f32, 5, 5.0f);
  at(ElementType::f32, (1u << 24) - 1, 16777215.0f);
  at(ElementType::f32, (1u << 24) + 3, 3.0f);
  at(ElementType::f64, (std::uint64_t{1} << 53) - 1, 9007199254740991.0);
  at(ElementType::f64, (std::uint64_t{1} << 53) + 9, 9.0);
  at(ElementType::i32, (std::uint64_t{1} << 31) - 1, std::numeric_limits<std::int32_t>::max());
  at(ElementType::i32, (std::uint64_t{1} << 31) + 1, std::int32_t{1});
  at(ElementType::i64, (std::uint64_t{1} << 40) + 1, (std::int64_t{1} << 40) + 1);
  at(ElementType::i8, 127, std::int8_t{127});
  at(ElementType::i8, 129, std::int8_t{1});
  at(ElementType::u8, 257, std::uint8_t{1});
}

}  // namespace
}  // namespace shardstream
