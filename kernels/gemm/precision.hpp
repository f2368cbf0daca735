// The precisions of matrix products: the types of panels, products and sums.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/backend.hpp"
#include "kernels/data/element.hpp"

namespace shardstream::gemm {

/// fp64 multiplies and adds doubles, fp32 floats. tf32, bf16 and fp16 round the elements to these
/// formats, multiply them exactly and add in float. int8 multiplies integers from -128 to 127 and
/// adds the products exactly in 32 bits, at most max_int8_k of them. fp32x3 splits each float into
/// two of tf32 and adds three of their four products, which gives nearly fp32's accuracy on tensor
/// cores.
enum class Precision : std::uint8_t { fp64, fp32, tf32, bf16, fp16, int8, fp32x3 };
inline constexpr std::array all_precisions = {Precision::fp64,  Precision::fp32, Precision::tf32,
                                              Precision::bf16,  Precision::fp16, Precision::int8,
                                              Precision::fp32x3};

/// The factors of a product, C = A B.
enum class Side : std::uint8_t { a, b };

constexpr std::string_view name_of(Precision precision) {
  constexpr std::string_view names[] = {"fp64", "fp32", "tf32", "bf16", "fp16", "int8", "fp32x3"};
  return names[static_cast<std::size_t>(precision)];
}

/// The precision with this name, or nothing.
constexpr std::optional<Precision> precision_named(std::string_view name) {
  for (const Precision precision : all_precisions) {
    if (name_of(precision) == name) return precision;
  }
  return std::nullopt;
}

/// Bytes of an element of a panel: a double for fp64, else a float. On a GPU, bf16, fp16 and int8
/// have their own formats; CPUs multiply floats with the same values.
constexpr std::size_t panel_element_bytes(Precision precision, Backend backend) {
  if (precision == Precision::fp64) return sizeof(double);
  if (backend == Backend::host) return sizeof(float);
  if (precision == Precision::int8) return sizeof(std::int8_t);
  const bool two = precision == Precision::bf16 || precision == Precision::fp16;
  return two ? 2 : sizeof(float);
}

/// Whether panels of this precision can be made from stored elements of type `from`: int8 only from
/// i8, the others from all types.
constexpr bool takes(Precision precision, ElementType from) {
  return precision != Precision::int8 || from == ElementType::i8;
}

/// The type of an accumulator's elements, and of C's.
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

/// The maximum number of products in a sum of int8. Each product is at most 2^14, so the sum fits
/// into 32 bits.
inline constexpr std::uint64_t max_int8_k = 0x7fffffff / (128 * 128);

}  // namespace shardstream::gemm
