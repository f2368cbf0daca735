// The element types of the program's data, and the conversion of a run-time type to a C++ type.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <type_traits>

namespace shardstream {

enum class ElementType : std::uint8_t { f32, f64, i32, i64, i8, u8, u64 };
inline constexpr std::array all_element_types = {
    ElementType::f32, ElementType::f64, ElementType::i32, ElementType::i64,
    ElementType::i8,  ElementType::u8,  ElementType::u64};

/// Calls f(std::type_identity<T>{}) with the C++ type of `type` and returns its value.
template <class F>
decltype(auto) with_element_type(ElementType type, F&& f) {
  switch (type) {
    case ElementType::f32:
      return f(std::type_identity<float>{});
    case ElementType::f64:
      return f(std::type_identity<double>{});
    case ElementType::i32:
      return f(std::type_identity<std::int32_t>{});
    case ElementType::i64:
      return f(std::type_identity<std::int64_t>{});
    case ElementType::i8:
      return f(std::type_identity<std::int8_t>{});
    case ElementType::u8:
      return f(std::type_identity<std::uint8_t>{});
    case ElementType::u64:
      return f(std::type_identity<std::uint64_t>{});
  }
  throw std::logic_error("element type out of range");
}

/// Bytes of one element.
constexpr std::size_t size_of(ElementType type) {
  constexpr std::size_t sizes[] = {4, 8, 4, 8, 1, 1, 8};
  return sizes[static_cast<std::size_t>(type)];
}

/// The name in options and files, such as "f32".
constexpr std::string_view word_of(ElementType type) {
  constexpr std::string_view names[] = {"f32", "f64", "i32", "i64", "i8", "u8", "u64"};
  return names[static_cast<std::size_t>(type)];
}

/// The range of options for an element type, and what other programs call the types.
inline constexpr std::string_view element_type_range = "auto|f32|f64|i32|i64|i8|u8|u64";
inline constexpr std::string_view element_type_other_names =
    "float=f32 float32=f32 double=f64 float64=f64 int=i32 int32=i32 long=i64 int64=i64 int8=i8 "
    "uint8=u8 uint64=u64";

}  // namespace shardstream
