// Numbers become stored values exactly or not at all, and conversions have texts of their own.
#include "types/stored_value.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>

namespace shardstream {
namespace {

using S = StoredType;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr auto none = std::optional<std::uint64_t>{};

TEST(StoredValues, AnIntegerHasWholeNumbersInItsRange) {
  EXPECT_EQ(bits_of(std::int64_t{-1}, S::i16), 0xffffu);
  EXPECT_EQ(bits_of(-1.0, S::i64), ~0ull);
  EXPECT_EQ(bits_of(std::int64_t{-1}, S::u64), none);
  EXPECT_EQ(bits_of(std::uint64_t{255}, S::i8), none);
  EXPECT_EQ(bits_of(std::uint64_t{255}, S::u8), 255u);
  EXPECT_EQ(bits_of(0.5, S::i32), none);
  EXPECT_EQ(bits_of(std::nan(""), S::i32), none);
  EXPECT_EQ(bits_of(0x1p63, S::i64), none);
  EXPECT_EQ(bits_of(-0x1p63, S::i64), 1ull << 63);
  EXPECT_EQ(bits_of(0x1p63, S::u64), 1ull << 63);
  EXPECT_EQ(bits_of(0x1p64, S::u64), none);
  EXPECT_EQ(bits_of(infinity, S::u64), none);
}

TEST(StoredValues, AFloatHasNumbersThatNeedNoRounding) {
  EXPECT_EQ(bits_of(0.5, S::f32), std::bit_cast<std::uint32_t>(0.5f));
  EXPECT_EQ(bits_of(0.1, S::f32), none);
  EXPECT_EQ(bits_of(1e300, S::f32), none);
  EXPECT_EQ(bits_of(-infinity, S::f32), 0xff800000u);
  EXPECT_TRUE(is_nan(bits_of(std::nan(""), S::f32).value(), S::f32));
  EXPECT_EQ(bits_of(std::int64_t{(1 << 24) + 1}, S::f32), none);
  EXPECT_EQ(bits_of(std::int64_t{(1 << 24) + 2}, S::f32),
            std::bit_cast<std::uint32_t>(0x1p24f + 2));
  EXPECT_EQ(bits_of(0.1, S::f64), std::bit_cast<std::uint64_t>(0.1));
}

double value_of(std::uint64_t half) {
  return with_value(half, S::f16, [](auto value) { return static_cast<double>(value); });
}

TEST(StoredValues, EachHalfIsItsOwnNumber) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double value = value_of(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(is_nan(bits, S::f16));
      EXPECT_EQ(bits & 0x7c00, 0x7c00u);
    } else {
      EXPECT_EQ(bits_of(value, S::f16), bits);
    }
  }
  EXPECT_EQ(value_of(0x3c01), 1 + 0x1p-10);
  EXPECT_EQ(value_of(0x0001), 0x1p-24);
  EXPECT_EQ(value_of(0xfbff), -65504.0);
  EXPECT_EQ(bits_of(0x1p-25, S::f16), none);
  EXPECT_EQ(bits_of(1 + 0x1p-11, S::f16), none);
  EXPECT_EQ(bits_of(65536.0, S::f16), none);
  EXPECT_EQ(bits_of(std::int64_t{-2}, S::f16), 0xc000u);
}

TEST(StoredValues, AMissingElementIsMissing) {
  MissingValues missing;
  EXPECT_EQ(missing_element(missing, S::i16), none);
  missing.nan = true;
  EXPECT_EQ(missing_element(missing, S::f32), none);
  missing = {.has_max = true, .max = 99};
  EXPECT_EQ(missing_element(missing, S::u8), 100u);
  missing.has_min = true;
  missing.min = 0;
  EXPECT_EQ(missing_element(missing, S::i16), 0xffffu);
  missing.value[0] = 7;
  missing.count = 1;
  EXPECT_EQ(missing_element(missing, S::i16), 7u);
}

Conversion plain(S from, ElementType to, bool is_reversed = false) {
  return {.from = from, .is_reversed = is_reversed, .to = to, .missing = {}, .unpacking = {}};
}

TEST(StoredValues, AConversionIsDescribedInWords) {
  Conversion conversion = plain(S::i16, ElementType::f32, true);
  EXPECT_EQ(text_of(conversion), "big-endian i16 to f32");
  conversion.unpacking = {
      .scale = 0.01f, .offset = 273.15, .multiplies = true, .adds = true, .product_is_f32 = true};
  conversion.missing.value[0] = 0x8001;
  conversion.missing.count = 1;
  conversion.missing.has_min = conversion.missing.has_max = true;
  conversion.missing.max = 100;
  EXPECT_EQ(text_of(conversion),
            "big-endian i16 to f32, * 0.01 (f32), + 273.15 (f64), missing: -32767 or outside "
            "[0, 100]");
}

TEST(StoredValues, DifferentConversionsHaveDifferentTexts) {
  std::set<std::string> texts;
  int count = 0;
  const auto add = [&](const Conversion& conversion) {
    texts.insert(text_of(conversion));
    ++count;
  };
  for (const StoredType from : all_stored_types) {
    for (const ElementType to : all_element_types) {
      for (const bool is_reversed : {false, true}) {
        add(plain(from, to, is_reversed));
      }
    }
  }
  const Conversion whole = plain(S::i32, ElementType::i32);
  for (const double scale : {0.01, std::nextafter(0.01, 1), double{0.01f}, 1e-300, 3.0}) {
    for (const bool adds : {false, true}) {
      Conversion each = whole;
      each.to = ElementType::f64;
      each.unpacking = {.scale = scale, .offset = scale, .multiplies = true, .adds = adds};
      add(each);
      each.unpacking.multiplies = false;
      each.unpacking.adds = true;
      if (adds) add(each);
    }
  }
  for (const std::uint64_t element : {7, 8}) {
    Conversion each = whole;
    each.missing.value[0] = 7;
    each.missing.value[1] = 8;
    each.missing.count = 2;
    each.missing_element = element;
    add(each);
  }
  for (const int limits : {1, 2, 3}) {
    Conversion each = whole;
    each.missing.has_min = (limits & 1) != 0;
    each.missing.has_max = (limits & 2) != 0;
    add(each);
    each.missing.nan = true;
    add(each);
  }
  EXPECT_EQ(texts.size(), static_cast<std::size_t>(count));
}

}  // namespace
}  // namespace shardstream
