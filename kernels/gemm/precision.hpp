// What a matrix product is computed in: the elements of its panels, products and sums.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/data/element.hpp"

namespace shardstream::gemm {

/// fp64 multiplies and adds doubles, fp32 floats. tf32, bf16 and fp16 multiply elements rounded to
/// these formats, exactly, and add in float. int8 multiplies whole numbers from -128 to 127 and
/// adds them exactly in 32 bits, for sums over at most most_int8_k products. fp32x3 takes floats
/// apart into two of tf32 each and adds three of their four products: nearly fp32's accuracy on
/// tensor cores.
enum class Precision : std::uint8_t { fp64, fp32, tf32, bf16, fp16, int8, fp32x3 };
inline constexpr std::array all_precisions = {Precision::fp64,  Precision::fp32, Precision::tf32,
                                              Precision::bf16,  Precision::fp16, Precision::int8,
                                              Precision::fp32x3};

constexpr std::string_view name_of(Precision precision) {
  constexpr std::string_view names[] = {"fp64", "fp32", "tf32", "bf16", "fp16", "int8", "fp32x3"};
  return names[static_cast<std::size_t>(precision)];
}

/// None if no precision has this name.
constexpr std::optional<Precision> precision_named(std::string_view name) {
  for (const Precision precision : all_precisions) {
    if (name_of(precision) == name) return precision;
  }
  return std::nullopt;
}

/// Bytes of an element of a panel: a double, a float, or on a GPU bf16's, fp16's or int8's own.
/// CPUs multiply floats that hold the values.
constexpr std::size_t panel_element_bytes(Precision precision, bool on_host) {
  if (precision == Precision::fp64) return sizeof(double);
  if (on_host) return sizeof(float);
  if (precision == Precision::int8) return sizeof(std::int8_t);
  const bool two = precision == Precision::bf16 || precision == Precision::fp16;
  return two ? 2 : sizeof(float);
}

/// Whether panels can be made of elements of the type: those of int8 of i8 alone, others of all.
constexpr bool takes(Precision precision, ElementType from) {
  return precision != Precision::int8 || from == ElementType::i8;
}

/// The type of an accumulator and of C.
constexpr ElementType accumulator_type(Precision precision) {
  if (precision == Precision::int8) return ElementType::i32;
  return precision == Precision::fp64 ? ElementType::f64 : ElementType::f32;
}

/// Bytes of an element of an accumulator and of C.
constexpr std::size_t accumulator_bytes(Precision precision) {
  return precision == Precision::fp64 ? sizeof(double) : sizeof(float);
}

/// Calls f(std::type_identity<T>{}) with the C++ type of an accumulator's elements.
template <class F>
decltype(auto) with_accumulator_type(Precision precision, F&& f) {
  if (precision == Precision::fp64) return f(std::type_identity<double>{});
  if (precision == Precision::int8) return f(std::type_identity<std::int32_t>{});
  return f(std::type_identity<float>{});
}

/// The most products in a sum of int8 that cannot leave 32 bits: each is at most 2^14.
inline constexpr std::uint64_t most_int8_k = 0x7fffffff / (128 * 128);

}  // namespace shardstream::gemm
