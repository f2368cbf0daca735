// Arithmetic of the experiments on instructions and types.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "experiments/instructions/divisor.hpp"
#include "experiments/instructions/emulated_product.hpp"
#include "experiments/instructions/math_reference.hpp"
#include "experiments/instructions/ulp.hpp"

namespace shardstream::experiments::instructions {
namespace {

constexpr float infinite = std::numeric_limits<float>::infinity();
constexpr float largest = std::numeric_limits<float>::max();
constexpr float smallest = std::numeric_limits<float>::denorm_min();

TEST(Divisors, GiveExactQuotientsAndRemainders) {
  constexpr std::uint32_t end = std::uint32_t{1} << 31;
  std::vector<std::uint32_t> divisors = {2, 3, 5, 6, 7, 10, 641, 65537, 715827883, end - 1, end};
  for (std::uint32_t power = 4; power < end; power *= 2) {
    divisors.insert(divisors.end(), {power - 1, power, power + 1});
  }
  for (const std::uint32_t d : divisors) {
    const Divisor divisor(d);
    std::vector<std::uint32_t> dividends = {0, 1, 9, 10, end / 2, end - 2, end - 1};
    const std::uint32_t last = (end - 1) / d * d;
    dividends.insert(dividends.end(), {d % end, last, last == 0 ? 0 : last - 1});
    for (std::uint32_t i = 0; i < 1000; ++i) dividends.push_back(i * 2654435761U % end);
    for (const std::uint32_t x : dividends) {
      ASSERT_EQ(divisor.quotient(x), x / d) << x << " / " << d;
      ASSERT_EQ(divisor.remainder(x), x % d) << x << " % " << d;
    }
  }
}

TEST(Emulation, NeedsItsVersionOfTheLibraryInTheHeaderAndAtRunTime) {
  EXPECT_EQ(why_not_emulated(130100, 130100), "");
  EXPECT_EQ(why_not_emulated(130100, 140000), "");
  const std::string old_header = why_not_emulated(120803, 130100);
  EXPECT_NE(old_header.find("built with 12.8.3"), old_header.npos) << old_header;
  const std::string old_library = why_not_emulated(130100, 130000);
  EXPECT_NE(old_library.find("the library is 13.0.0"), old_library.npos) << old_library;
}

TEST(Emulation, SaysHowManyBitsTheLibraryKeptOrThatItDidNotEmulate) {
  EXPECT_NE(emulation_remark(55).find("55 bits"), std::string::npos);
  EXPECT_NE(emulation_remark(-1).find("not emulated"), std::string::npos);
}

TEST(Places, AreInTheOrderOfFloats) {
  const float ordered[] = {
      -infinite, -largest, -1, -smallest, -0.0F, 0, smallest, 1, std::nextafter(1.0F, 2.0F),
      largest,   infinite};
  for (std::size_t i = 0; i < std::size(ordered); ++i) {
    EXPECT_EQ(float_at(place_of(ordered[i])), ordered[i]);
    if (i == 0) continue;
    EXPECT_LT(place_of(ordered[i - 1]), place_of(ordered[i])) << i;
  }
  EXPECT_EQ(place_of(std::nextafter(1.0F, 2.0F)), place_of(1.0F) + 1);
  EXPECT_EQ(place_of(0.0F), place_of(-0.0F) + 1);
}

TEST(Errors, AreDistancesInUnitsOfTheLastPlace) {
  EXPECT_EQ(error_in_ulp(1, 1), 0);
  EXPECT_EQ(error_in_ulp(1, 1 + 0x1p-24), 0.5);
  EXPECT_EQ(error_in_ulp(1, 1 - 0x1p-25), 0.5);
  EXPECT_EQ(error_in_ulp(-3, -2.5), 0x1p21);
  EXPECT_EQ(error_in_ulp(0, double{min_normal}), 0x1p23);
  EXPECT_EQ(error_in_ulp(smallest, 0), 1);
  EXPECT_EQ(error_in_ulp(0, 0x1p-150), 0.5);
  EXPECT_EQ(error_in_ulp(infinite, 1e38), std::numeric_limits<double>::infinity());
  EXPECT_EQ(error_in_ulp(std::nanf(""), 1), std::numeric_limits<double>::infinity());
  EXPECT_EQ(error_in_ulp(infinite, 1e39), 0);
  EXPECT_EQ(error_in_ulp(largest, 0x1p128 - 0x1p103), 0) << "rounds to an infinite float";
  EXPECT_EQ(error_in_ulp(1, std::nan("")), 0);
}

TEST(RightBits, AreThoseOfAFloatLessTheLogarithmOfTheError) {
  EXPECT_EQ(right_bits(0), 24);
  EXPECT_EQ(right_bits(0.5), 24);
  EXPECT_EQ(right_bits(1), 23);
  EXPECT_EQ(right_bits(0x1p22), 1);
  EXPECT_EQ(right_bits(0x1p30), 0);
  EXPECT_EQ(right_bits(std::numeric_limits<double>::infinity()), 0);
}

TEST(Subnormals, ArePositiveOrNegativeButNotZero) {
  EXPECT_TRUE(is_subnormal(smallest) && is_subnormal(-1e-39) && is_subnormal(1e-60));
  EXPECT_FALSE(is_subnormal(0) || is_subnormal(min_normal) || is_subnormal(-min_normal));
}

TEST(ArgumentsOfFunctions, EndAtTheLastFloatThatTheStepReaches) {
  const Arguments all = arguments_between(-1, 1, 1);
  EXPECT_EQ(all.x(0), -1);
  EXPECT_EQ(all.x(all.count - 1), 1);
  EXPECT_EQ(all.count, 2 * (std::uint64_t{127} << 23) + 2);
  const Arguments some = arguments_between(1, 2, 1021);
  EXPECT_LE(some.x(some.count - 1), 2);
  EXPECT_GT(some.x(some.count), 2);
}

TEST(ArgumentsOfFunctions, OfASampleAreAmongAll) {
  const Arguments all = arguments_between(0x1p-149F, largest, 1021);
  const Arguments some = sample_of(all, 1000);
  EXPECT_GT(some.count, 900U);
  EXPECT_LE(some.count, 1000U);
  EXPECT_EQ((place_of(some.x(some.count - 1)) - all.first) % all.step, 0U);
  EXPECT_LE(some.x(some.count - 1), all.x(all.count - 1));
}

TEST(ArgumentsOfFunctions, HaveASecondOneInTheBinadeOfOne) {
  Arguments all = arguments_between(1, 2, 1);
  all.fixed = 2.5F;
  EXPECT_EQ(all.y(7), 2.5F);
  all.second = Second::varied;
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_GE(all.y(i), 1);
    EXPECT_LT(all.y(i), 2);
  }
}

TEST(ExactFunctions, ReduceMultiplesOfPiExactly) {
  const auto sine = [](float x) { return exact_on_host(Exact::sine_pi, 0, x, 0); };
  const auto cosine = [](float x) { return exact_on_host(Exact::cosine_pi, 0, x, 0); };
  const long double root = std::sqrt(0.5L);
  for (const float turns : {0.0F, 2.0F, 1048576.0F}) {
    EXPECT_EQ(sine(turns), 0);
    EXPECT_EQ(sine(turns + 1), 0);
    EXPECT_EQ(sine(turns + 0.5F), 1);
    EXPECT_EQ(sine(turns + 1.5F), -1);
    EXPECT_NEAR(static_cast<double>(sine(turns + 0.75F) - root), 0, 1e-18);
    EXPECT_NEAR(static_cast<double>(sine(turns + 1.25F) + root), 0, 1e-18);
    EXPECT_EQ(cosine(turns), 1);
    EXPECT_EQ(cosine(turns + 1), -1);
    EXPECT_EQ(cosine(turns + 0.5F), 0);
    EXPECT_NEAR(static_cast<double>(cosine(turns + 0.25F) - root), 0, 1e-18);
    EXPECT_NEAR(static_cast<double>(cosine(turns + 0.75F) + root), 0, 1e-18);
  }
  EXPECT_EQ(exact_on_host(Exact::sine_degrees, 0, 90, 0), 1);
}

}  // namespace
}  // namespace shardstream::experiments::instructions
