// The types of elements in files, and the rules by which stored elements become elements of the
// program's types: byte order, missing values, unpacking.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "types/element.hpp"

namespace shardstream {

/// A type of stored elements. The first ten are types of C++; f16 is IEEE binary16.
enum class StoredType : std::uint8_t { i8, u8, i16, u16, i32, u32, i64, u64, f32, f64, f16 };
inline constexpr std::array all_stored_types = {StoredType::i8,  StoredType::u8,  StoredType::i16,
                                                StoredType::u16, StoredType::i32, StoredType::u32,
                                                StoredType::i64, StoredType::u64, StoredType::f32,
                                                StoredType::f64, StoredType::f16};

/// The bits of an f16.
struct Half {
  std::uint16_t bits;
};

/// Calls f(std::type_identity<S>{}) with the C++ type of `type` (Half for f16), and returns its
/// value.
template <class F>
constexpr decltype(auto) with_stored_type(StoredType type, F&& f) {
  switch (type) {
    case StoredType::i8:
      return f(std::type_identity<std::int8_t>{});
    case StoredType::u8:
      return f(std::type_identity<std::uint8_t>{});
    case StoredType::i16:
      return f(std::type_identity<std::int16_t>{});
    case StoredType::u16:
      return f(std::type_identity<std::uint16_t>{});
    case StoredType::i32:
      return f(std::type_identity<std::int32_t>{});
    case StoredType::u32:
      return f(std::type_identity<std::uint32_t>{});
    case StoredType::i64:
      return f(std::type_identity<std::int64_t>{});
    case StoredType::u64:
      return f(std::type_identity<std::uint64_t>{});
    case StoredType::f32:
      return f(std::type_identity<float>{});
    case StoredType::f64:
      return f(std::type_identity<double>{});
    case StoredType::f16:
      break;
  }
  return f(std::type_identity<Half>{});
}

/// Bytes of one stored element.
constexpr std::size_t size_of(StoredType type) {
  constexpr std::size_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 2};
  return sizes[static_cast<std::size_t>(type)];
}

constexpr std::string_view word_of(StoredType type) {
  constexpr std::string_view names[] = {"i8",  "u8",  "i16", "u16", "i32", "u32",
                                        "i64", "u64", "f32", "f64", "f16"};
  return names[static_cast<std::size_t>(type)];
}

constexpr bool is_float(StoredType type) {
  return type >= StoredType::f32;
}

/// The stored values that stand for "no value". A value is missing if it equals one of `values`, if
/// it is below `min` or above `max`, or if it is NaN and `nan` is set. Values are bits of the
/// stored type, in the low bytes of a word. They are compared as numbers of the stored type, so a
/// limit does not apply to NaN, and -0 equals 0.
struct MissingValues {
  static constexpr unsigned max_values = 8;

  std::uint64_t value[max_values] = {};
  std::uint32_t count = 0;  ///< of `value`
  bool nan = false, has_min = false, has_max = false;
  std::uint64_t min = 0, max = 0;

  constexpr bool any() const { return count > 0 || nan || has_min || has_max; }
  bool operator==(const MissingValues&) const = default;
};

/// value = stored * scale + offset. The product is rounded to f32 or f64, and then the sum. They
/// are f32 only if stored values are exact in f32, and the sum only if the product is, too.
struct Unpacking {
  double scale = 1, offset = 0;
  bool multiplies = false, adds = false;
  bool product_is_f32 = false, sum_is_f32 = false;  ///< otherwise they are f64

  constexpr bool any() const { return multiplies || adds; }
  bool operator==(const Unpacking&) const = default;
  /// Whether the result is f32.
  constexpr bool gives_f32() const { return adds ? sum_is_f32 : product_is_f32; }
};

/// How stored elements become elements. It is an argument of kernels.
struct Conversion {
  StoredType from = StoredType::f32;
  bool is_reversed = false;  ///< stored in the other byte order
  ElementType to = ElementType::f32;
  MissingValues missing = {};
  Unpacking unpacking = {};
  /// The bits of the element that stands for a missing value. No other element has these bits, if
  /// `to` is a type of integers. A float is missing_nan().
  std::uint64_t missing_element = 0;

  bool operator==(const Conversion&) const = default;
};

}  // namespace shardstream
