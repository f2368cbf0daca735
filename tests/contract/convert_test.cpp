// Conversions on every backend: the kernel and convert() give the same elements as the simple code,
// for all types and rules.
#include "kernels/data/convert.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/data/generate.hpp"
#include "support/backend.hpp"
#include "types/stored_value.hpp"

namespace shardstream {
namespace {

using device::Buffer;
using device::Memory;
using Bytes = std::vector<std::byte>;

std::uint64_t bits_of_number(std::int64_t number, StoredType type) {
  return bits_of(Number{number}, type).value();
}

/// Stored values as words: all of them for types of up to 16 bits. For others many random ones, all
/// powers of two, their neighbours, and small numbers; so zeros, infinities, NaNs and subnormal
/// floats are among them.
std::vector<std::uint64_t> value_words(StoredType type) {
  const std::size_t bits = 8 * size_of(type);
  std::vector<std::uint64_t> words;
  if (bits <= 16) {
    for (std::uint64_t word = 0; word >> bits == 0; ++word) words.push_back(word);
    return words;
  }
  for (std::size_t bit = 0; bit < bits; ++bit) {
    const std::uint64_t power = std::uint64_t{1} << bit;
    for (const std::uint64_t word : {power, power - 1, power + 1, ~power, ~power + 1}) {
      words.push_back(word);
    }
  }
  for (const double infinity : {HUGE_VAL, -HUGE_VAL}) {
    if (is_float(type)) words.push_back(bits_of(Number{infinity}, type).value());
  }
  for (std::int64_t number = 0; number < 100; ++number) {
    words.push_back(bits_of_number(number, type));
  }
  for (std::uint64_t i = 0; i < 1000; ++i) words.push_back(mix(i));
  return words;
}

/// `count` of these values as they are stored, from the first on and round again.
Bytes stored(const Conversion& how, const std::vector<std::uint64_t>& words, std::uint64_t count) {
  const std::size_t size = size_of(how.from);
  Bytes bytes(count * size);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::byte* const to = bytes.data() + i * size;
    std::memcpy(to, &words[i % words.size()], size);
    if (how.is_reversed) std::reverse(to, to + size);
  }
  return bytes;
}

/// The rules for missing values: none, each kind, and all kinds.
std::vector<MissingValues> missing_rules(StoredType type) {
  const std::uint64_t ten = bits_of_number(10, type), ninety = bits_of_number(90, type);
  MissingValues one{.value = {ten}, .count = 1};
  MissingValues several{.count = MissingValues::max_values};
  for (unsigned i = 0; i < several.count; ++i) several.value[i] = bits_of_number(3 * i, type);
  MissingValues all = several;
  all.nan = all.has_min = all.has_max = true;
  all.min = ten;
  all.max = ninety;
  return {{},
          one,
          several,
          {.nan = true},
          {.has_min = true, .min = ten},
          {.has_max = true, .max = ninety},
          all};
}

/// None, and products and sums of the types that Unpacking allows for stored values of `type`.
std::vector<Unpacking> unpackings(StoredType type) {
  const double scale = 0.01f, offset = 273.15f;
  std::vector<Unpacking> all = {{}};
  for (const bool product_is_f32 : {false, true}) {
    for (const bool sum_is_f32 : {false, true}) {
      const bool exact = size_of(type) <= 2 || type == StoredType::f32;
      if ((product_is_f32 && !exact) || (sum_is_f32 && !product_is_f32)) continue;
      const Unpacking both{.scale = scale,
                           .offset = offset,
                           .multiplies = true,
                           .adds = true,
                           .product_is_f32 = product_is_f32,
                           .sum_is_f32 = sum_is_f32};
      all.push_back(both);
      all.push_back(both);
      all.back().adds = false;
      all.push_back(both);
      all.back().multiplies = false;
    }
  }
  return all;
}

/// Calls use(conversion) for all stored types, element types, rules and unpackings, in both byte
/// orders.
template <class Use>
void for_all_conversions(const Use& use) {
  for (const StoredType from : all_stored_types) {
    for (const ElementType to : all_element_types) {
      for (const MissingValues& missing : missing_rules(from)) {
        for (const Unpacking& unpacking : unpackings(from)) {
          for (const bool is_reversed : {false, true}) {
            use(Conversion{from, is_reversed, to, missing, unpacking, 77});
          }
        }
      }
    }
  }
}

/// Expects the same bits. All NaNs count as equal.
void expect_same(const Conversion& how, const Bytes& elements, const Bytes& expected,
                 const std::string& what) {
  with_element_type(how.to, [&](auto type) {
    using T = typename decltype(type)::type;
    ASSERT_EQ(elements.size(), expected.size());
    for (std::size_t at = 0; at < elements.size(); at += sizeof(T)) {
      T one, other;
      std::memcpy(&one, elements.data() + at, sizeof one);
      std::memcpy(&other, expected.data() + at, sizeof other);
      const bool both_nan = one != one && other != other;
      ASSERT_TRUE(both_nan || std::memcmp(&one, &other, sizeof one) == 0)
          << text_of(how) << ", " << what << ", element " << at / sizeof(T) << ": " << +one
          << " instead of " << +other;
    }
  });
}

struct Expected {
  Bytes elements;
  std::uint64_t missing;
};

/// Counts missing values as those that become NaN in a conversion to f64 and are not NaN without
/// the rules, so it does not depend on the code under test.
Expected expected_of(const Conversion& how, const Bytes& data) {
  const std::uint64_t count = data.size() / size_of(how.from);
  Expected result{Bytes(count * size_of(how.to)), 0};
  convert_simply(how, data.data(), count, result.elements.data());
  const auto is_nan = [&](const MissingValues& rules) {
    std::vector<double> numbers(count);
    convert_simply({.from = how.from,
                    .is_reversed = how.is_reversed,
                    .to = ElementType::f64,
                    .missing = rules},
                   data.data(), count, reinterpret_cast<std::byte*>(numbers.data()));
    return std::ranges::count_if(numbers, [](double x) { return std::isnan(x); });
  };
  const auto missing = is_nan(how.missing), stored_nan = is_nan({});
  result.missing = static_cast<std::uint64_t>(how.missing.nan ? missing : missing - stored_nan);
  return result;
}

class Conversions : public testing::Test {
 protected:
  /// Converts with the kernel, behind which a guard must stay unchanged. The number of missing
  /// values is added to `missing`.
  Bytes with_kernel(const Conversion& how, const Bytes& data, Buffer<std::uint64_t>& missing) {
    const std::uint64_t count = data.size() / size_of(how.from);
    constexpr std::size_t guard = 64;
    const auto in = test::on_device(*device_, *stream_, data);
    const auto out =
        test::on_device(*device_, *stream_, Bytes(count * size_of(how.to) + guard, std::byte{42}));
    stream_->launch(convert_kernel(), {.conversion = how,
                                       .stored = in.data(),
                                       .elements = out.data(),
                                       .count = count,
                                       .missing = missing.data()});
    Bytes elements = test::from_device(*stream_, out);
    EXPECT_EQ(Bytes(elements.end() - guard, elements.end()), Bytes(guard, std::byte{42}))
        << text_of(how);
    elements.resize(elements.size() - guard);
    return elements;
  }

  void expect_kernel(const Conversion& how, const Bytes& data) {
    const Expected expected = expected_of(how, data);
    auto missing = test::on_device(*device_, *stream_, std::vector<std::uint64_t>{5});
    expect_same(how, with_kernel(how, data, missing), expected.elements, "kernel");
    EXPECT_EQ(test::from_device(*stream_, missing)[0], 5 + expected.missing) << text_of(how);
  }

  std::unique_ptr<device::Device> device_ = test::make_backend();
  std::unique_ptr<device::Stream> stream_ = device_->make_stream();
};

TEST_F(Conversions, OfEveryTypeWithEveryRule) {
  unsigned conversions = 0;
  for_all_conversions([&](const Conversion& how) {
    if (!always_fits(how)) return;
    // OfEveryValueOf16Bits has the other values of types of 16 bits.
    expect_kernel(how, stored(how, value_words(how.from), 2053));
    ++conversions;
  });
  EXPECT_GT(conversions, 1000U);
}

TEST_F(Conversions, OfEveryValueOf16Bits) {
  for (const StoredType from : {StoredType::f16, StoredType::i16, StoredType::u16}) {
    const std::vector<MissingValues> rules = missing_rules(from);
    for (const ElementType to : all_element_types) {
      for (const Unpacking& unpacking : unpackings(from)) {
        const Conversion how{from, true, to, rules.back(), unpacking, 77};
        if (always_fits(how)) expect_kernel(how, stored(how, value_words(from), 65536));
      }
    }
  }
}

TEST_F(Conversions, OfAnyNumberOfElements) {
  const StoredType from = StoredType::i16;
  for (const std::uint64_t count : {1, 7, 255, 256, 1023, 1024, 1025, 2047, 2048, 2049, 100'003}) {
    for (const MissingValues& missing : missing_rules(from)) {
      const Conversion how{.from = from,
                           .to = ElementType::f32,
                           .missing = missing,
                           .unpacking = unpackings(from).back()};
      expect_kernel(how, stored(how, value_words(from), count));
    }
  }
}

TEST_F(Conversions, AddUpTheirMissingValues) {
  const Conversion how{.from = StoredType::u8,
                       .to = ElementType::u8,
                       .missing = {.value = {7}, .count = 1},
                       .missing_element = 7};
  const Bytes data = stored(how, value_words(how.from), 1000);
  auto missing = test::on_device(*device_, *stream_, std::vector<std::uint64_t>{0});
  EXPECT_EQ(with_kernel(how, data, missing), data);
  EXPECT_EQ(with_kernel(how, data, missing), data);
  EXPECT_EQ(test::from_device(*stream_, missing)[0], 2 * 4U);
}

/// The memory of the host code may have any alignment, unlike that of kernels.
TEST(HostConversion, GivesTheSameElementsAtAnyAddress) {
  for_all_conversions([&](const Conversion& how) {
    std::vector<std::uint64_t> words;
    for (std::int64_t i = 0; i < 100; ++i) words.push_back(bits_of_number(i, how.from));
    const bool fits = always_fits(how);
    const bool is_float = how.to == ElementType::f32 || how.to == ElementType::f64;
    if (how.unpacking.any() && !is_float) return;  // fractions
    const Bytes data = stored(how, fits ? value_words(how.from) : words, 1500);
    const Expected expected = expected_of(how, data);
    Bytes moved(data.size() + 1), elements(expected.elements.size() + 3);
    std::ranges::copy(data, moved.begin() + 1);
    const Converted result = convert(how, moved.data() + 1, 1500, elements.data() + 3);
    EXPECT_EQ(result.misfit, std::nullopt) << text_of(how);
    EXPECT_EQ(result.missing, expected.missing) << text_of(how);
    expect_same(how, Bytes(elements.begin() + 3, elements.end()), expected.elements, "convert()");
  });
}

/// The first of 3000 elements that does not fit, if elements 1100 and 2900 are `number` and all
/// others are 1.
std::optional<std::uint64_t> misfit(Conversion how, const Number& number, bool is_missing = false) {
  const std::uint64_t bits = bits_of(number, how.from).value();
  if (is_missing) how.missing = {.value = {bits}, .count = 1, .nan = is_nan(bits, how.from)};
  std::vector<std::uint64_t> words(3000, bits_of_number(1, how.from));
  words[1100] = words[2900] = bits;
  const Bytes data = stored(how, words, words.size());
  Bytes elements(words.size() * size_of(how.to));
  return convert(how, data.data(), words.size(), elements.data()).misfit;
}

TEST(HostConversion, NamesTheFirstElementThatDoesNotFit) {
  using S = StoredType;
  using T = ElementType;
  using I = std::int64_t;
  const double infinity = HUGE_VAL, nan = std::nan("");
  const struct {
    S from;
    T to;
    std::vector<Number> misfits, fits;
  } cases[] = {{S::f64, T::f32, {1e300, -4e38}, {3.4e38, infinity, -infinity, nan, 1e-300}},
               {S::f32, T::i32, {0.5, infinity, nan, 0x1p31}, {-0.0, -0x1p31, 0x1p30}},
               {S::f64, T::i64, {0.5, 0x1p63, -0x1.8p63, nan}, {-0x1p63, 0x1p62}},
               {S::f16, T::u8, {-1.0, 256.0, 0.5, infinity, nan}, {-0.0, 255.0}},
               {S::i16, T::u8, {I{-1}, I{256}}, {I{0}, I{255}}},
               {S::i64, T::i32, {I{1} << 31, I{-1} << 32}, {I{-1} << 31}},
               {S::u64, T::i64, {std::uint64_t{1} << 63}, {(std::uint64_t{1} << 63) - 1}}};
  for (const auto& [from, to, misfits, fits] : cases) {
    for (const bool is_reversed : {false, true}) {
      const Conversion how{.from = from, .is_reversed = is_reversed, .to = to};
      EXPECT_FALSE(always_fits(how));
      for (const Number& number : misfits) {
        EXPECT_EQ(misfit(how, number), 1100U) << text_of(how);
        EXPECT_EQ(misfit(how, number, true), std::nullopt) << text_of(how) << ", missing";
      }
      for (const Number& number : fits) EXPECT_EQ(misfit(how, number), std::nullopt);
    }
  }
}

TEST(HostConversion, ChecksUnpackedValues) {
  const Unpacking half{.scale = 0.5, .multiplies = true}, large{.scale = 1e38, .multiplies = true};
  Conversion how{.from = StoredType::i16, .to = ElementType::i32};
  how.unpacking = {.offset = 1, .adds = true};
  EXPECT_EQ(misfit(how, std::int64_t{32767}), std::nullopt);
  how.unpacking = half;
  EXPECT_EQ(misfit(how, std::int64_t{2}), 0U);  // 1 becomes 0.5
  how.to = ElementType::f32;
  how.unpacking = large;
  EXPECT_EQ(misfit(how, std::int64_t{3}), std::nullopt);
  EXPECT_EQ(misfit(how, std::int64_t{4}), 1100U);
}

TEST(HostConversion, OfNoElements) {
  const Converted result = convert({.from = StoredType::i16}, nullptr, 0, nullptr);
  EXPECT_EQ(result.missing, 0U);
  EXPECT_EQ(result.misfit, std::nullopt);
}

}  // namespace
}  // namespace shardstream
