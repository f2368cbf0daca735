// What a matrix product is computed in: the elements of its panels, products and sums.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shardstream::gemm {

/// fp64 multiplies and adds doubles, fp32 floats. tf32, bf16 and fp16 multiply elements rounded to
/// these formats, exactly, and add in float.
enum class Precision : std::uint8_t { fp64, fp32, tf32, bf16, fp16 };
inline constexpr std::array all_precisions = {Precision::fp64, Precision::fp32, Precision::tf32,
                                              Precision::bf16, Precision::fp16};

constexpr std::string_view name_of(Precision precision) {
  constexpr std::string_view names[] = {"fp64", "fp32", "tf32", "bf16", "fp16"};
  return names[static_cast<std::size_t>(precision)];
}

/// None if no precision has this name.
constexpr std::optional<Precision> precision_named(std::string_view name) {
  for (const Precision precision : all_precisions) {
    if (name_of(precision) == name) return precision;
  }
  return std::nullopt;
}

/// Bytes of an element of a panel: a double, a float, or on a GPU bf16's or fp16's own two bytes.
/// CPUs multiply floats that hold the rounded values.
constexpr std::size_t panel_element_bytes(Precision precision, bool on_host) {
  if (precision == Precision::fp64) return sizeof(double);
  const bool two = precision == Precision::bf16 || precision == Precision::fp16;
  return two && !on_host ? 2 : sizeof(float);
}

/// Bytes of an element of an accumulator and of C: a double with fp64, else a float.
constexpr std::size_t accumulator_bytes(Precision precision) {
  return precision == Precision::fp64 ? sizeof(double) : sizeof(float);
}

}  // namespace shardstream::gemm
