// The independent conversion: stored bytes become exact numbers by arithmetic on their bits.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/data/convert.hpp"
#include "types/missing.hpp"

namespace shardstream {
namespace {

__extension__ using Int128 = __int128;

/// A stored number: an integer, or a float.
struct Stored {
  bool is_float;
  Int128 integer;
  double real;

  double as_double() const { return is_float ? real : static_cast<double>(integer); }
  bool operator==(const Stored& other) const {
    return is_float ? real == other.real : integer == other.integer;
  }
  bool operator<(const Stored& other) const {
    return is_float ? real < other.real : integer < other.integer;
  }
};

double half(std::uint64_t bits) {
  const auto mantissa = static_cast<double>(bits & 1023);
  const int exponent = static_cast<int>(bits >> 10 & 31);
  double size = std::ldexp(exponent == 0 ? mantissa : mantissa + 1024, std::max(exponent, 1) - 25);
  if (exponent == 31) size = mantissa == 0 ? HUGE_VAL : std::nan("");
  return (bits & 0x8000) != 0 ? -size : size;
}

Stored stored_of(StoredType type, std::uint64_t bits) {
  switch (type) {
    case StoredType::f16:
      return {true, 0, half(bits)};
    case StoredType::f32:
      return {true, 0, std::bit_cast<float>(static_cast<std::uint32_t>(bits))};
    case StoredType::f64:
      return {true, 0, std::bit_cast<double>(bits)};
    default:
      break;
  }
  const std::size_t width = 8 * size_of(type);
  const bool has_sign = type == StoredType::i8 || type == StoredType::i16 ||
                        type == StoredType::i32 || type == StoredType::i64;
  Int128 integer = bits;
  if (has_sign && (bits >> (width - 1) & 1) != 0) integer -= Int128{1} << width;
  return {false, integer, 0};
}

Stored read(const Conversion& how, const std::byte* stored) {
  const std::size_t size = size_of(how.from);
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t place = how.is_reversed ? size - 1 - i : i;
    bits |= std::to_integer<std::uint64_t>(stored[i]) << 8 * place;
  }
  return stored_of(how.from, bits);
}

bool is_missing(const Conversion& how, const Stored& value) {
  const MissingValues& rules = how.missing;
  if (value.is_float && std::isnan(value.real)) return rules.nan;
  if (rules.has_min && value < stored_of(how.from, rules.min)) return true;
  if (rules.has_max && stored_of(how.from, rules.max) < value) return true;
  for (unsigned i = 0; i < rules.count; ++i) {
    if (value == stored_of(how.from, rules.value[i])) return true;
  }
  return false;
}

double unpack(const Unpacking& how, double value) {
  if (how.multiplies) {
    const double product = value * how.scale;  // exact in double if both factors are f32
    value = how.product_is_f32 ? static_cast<double>(static_cast<float>(product)) : product;
  }
  if (!how.adds) return value;
  if (!how.sum_is_f32) return value + how.offset;
  return static_cast<float>(value) + static_cast<float>(how.offset);
}

template <class T>
T element_of(const Conversion& how, const Stored& value) {
  if (is_missing(how, value)) {
    if constexpr (std::is_floating_point_v<T>) return missing_nan<T>();
    return static_cast<T>(how.missing_element);
  }
  if (how.unpacking.any()) return static_cast<T>(unpack(how.unpacking, value.as_double()));
  return value.is_float ? static_cast<T>(value.real) : static_cast<T>(value.integer);
}

}  // namespace

void convert_simply(const Conversion& conversion, const std::byte* stored, std::uint64_t count,
                    std::byte* elements) {
  const std::size_t from = size_of(conversion.from);
  with_element_type(conversion.to, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::uint64_t i = 0; i < count; ++i) {
      const T element = element_of<T>(conversion, read(conversion, stored + i * from));
      std::memcpy(elements + i * sizeof(T), &element, sizeof(T));
    }
  });
}

}  // namespace shardstream
