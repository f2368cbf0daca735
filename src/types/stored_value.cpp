#include "types/stored_value.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardstream {
namespace {

// binary16: 10 bits of fraction, exponents from -14 to 15. A subnormal number is a multiple of
// 2^-24.
constexpr int fraction_bits = 10, min_exponent = -14, max_exponent = 15;

/// The f16 that equals `number`, if there is one.
std::optional<Half> half_of(double number) {
  const unsigned sign = std::signbit(number) ? 0x8000 : 0;
  if (std::isnan(number)) return Half{0x7e00};
  if (std::isinf(number)) return Half{static_cast<std::uint16_t>(sign | 0x7c00)};
  if (number == 0) return Half{static_cast<std::uint16_t>(sign)};
  int exponent = 0;
  std::frexp(number, &exponent);
  exponent = std::max(exponent - 1, min_exponent);
  const double significand = std::ldexp(std::fabs(number), fraction_bits - exponent);
  if (exponent > max_exponent || significand != std::trunc(significand)) return std::nullopt;
  // The leading 1 of a normal number increments the exponent field.
  const unsigned field = static_cast<unsigned>(exponent - min_exponent) << fraction_bits;
  return Half{static_cast<std::uint16_t>(sign | (field + static_cast<unsigned>(significand)))};
}

/// The value of type To that equals `number`, if there is one.
template <class To, class From>
std::optional<To> exactly(From number) {
  if constexpr (std::is_same_v<To, Half>) {
    return half_of(static_cast<double>(number));
  } else if constexpr (std::floating_point<To>) {
    const To value = static_cast<To>(number);
    if constexpr (std::floating_point<From>) {
      if (std::isnan(number)) return value;
    }
    if (static_cast<double>(value) != static_cast<double>(number)) return std::nullopt;
    return value;
  } else if constexpr (std::integral<From>) {
    if (!std::in_range<To>(number)) return std::nullopt;
    return static_cast<To>(number);
  } else {
    // Both bounds are powers of two or 0, so they are exact as f64.
    const double end = std::ldexp(1.0, std::numeric_limits<To>::digits);
    const double min = static_cast<double>(std::numeric_limits<To>::min());
    if (!(number >= min && number < end) || number != std::trunc(number)) return std::nullopt;
    return static_cast<To>(number);
  }
}

/// The bits of a value, in the low bytes of a word.
template <class T>
std::uint64_t as_word(T value) {
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  return word;
}

template <class T>
std::string digits(T value) {
  if constexpr (std::floating_point<T>) {
    if (std::isnan(value)) return "NaN";  // without its sign
  }
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

/// " (f32)" after a result that is rounded to f32.
std::string operation(char sign, double operand, bool is_f32) {
  const std::string number = is_f32 ? digits(static_cast<float>(operand)) : digits(operand);
  return std::string(", ") + sign + ' ' + number + (is_f32 ? " (f32)" : " (f64)");
}

/// "-32767 or NaN or outside [0, 100]"
std::string text_of(const MissingValues& missing, StoredType type) {
  std::vector<std::string> parts;
  for (std::uint32_t i = 0; i < missing.count; ++i) {
    parts.push_back(text_of(missing.value[i], type));
  }
  if (missing.nan) parts.emplace_back("NaN");
  const std::string min = text_of(missing.min, type), max = text_of(missing.max, type);
  if (missing.has_min && missing.has_max) {
    parts.push_back("outside [" + min + ", " + max + "]");
  } else if (missing.has_min) {
    parts.push_back("below " + min);
  } else if (missing.has_max) {
    parts.push_back("above " + max);
  }
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : " or ") + part;
  return text;
}

}  // namespace

std::optional<std::uint64_t> bits_of(const Number& number, StoredType type) {
  return with_stored_type(type, [&](auto id) -> std::optional<std::uint64_t> {
    using Stored = typename decltype(id)::type;
    const auto value = std::visit([](auto n) { return exactly<Stored>(n); }, number);
    if (!value) return std::nullopt;
    return as_word(*value);
  });
}

bool is_nan(std::uint64_t bits, StoredType type) {
  return with_value(bits, type, [](auto value) {
    if constexpr (std::floating_point<decltype(value)>) return std::isnan(value);
    return false;
  });
}

std::optional<std::uint64_t> missing_element(const MissingValues& missing, StoredType type) {
  if (is_float(type)) return std::nullopt;
  if (missing.count > 0) return missing.value[0];
  const auto neighbour = [type](std::uint64_t bits, int step) {
    return with_value(bits, type, [step](auto value) {
      return as_word(static_cast<decltype(value)>(value + static_cast<decltype(value)>(step)));
    });
  };
  if (missing.has_min) return neighbour(missing.min, -1);
  if (missing.has_max) return neighbour(missing.max, 1);
  return std::nullopt;
}

std::string text_of(std::uint64_t bits, StoredType type) {
  return with_value(bits, type, [](auto value) { return digits(value); });
}

std::string text_of(const Conversion& conversion) {
  const auto& [from, is_reversed, to, missing, unpacking, missing_element] = conversion;
  std::string text = is_reversed ? "big-endian " : "";
  text.append(word_of(from)).append(" to ").append(word_of(to));
  if (unpacking.multiplies) text += operation('*', unpacking.scale, unpacking.product_is_f32);
  if (unpacking.adds) text += operation('+', unpacking.offset, unpacking.sum_is_f32);
  if (!missing.any()) return text;
  text += ", missing: " + text_of(missing, from);
  if (to == ElementType::f32 || to == ElementType::f64) return text;
  return with_element_type(to, [&](auto id) {
    typename decltype(id)::type value;
    std::memcpy(&value, &missing_element, sizeof value);
    return text + ", which become " + digits(value);
  });
}

}  // namespace shardstream
