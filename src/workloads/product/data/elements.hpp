// Elements of C and C0 in host memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "types/element.hpp"

namespace shardstream::workloads::product {

/// How elements that are NaN are treated.
enum class NanElements : std::uint8_t { count, are_skipped };

/// Whether `count` elements are finite.
bool are_finite(ElementType type, const std::byte* elements, std::uint64_t count, NanElements nan);

/// Converts `count` elements of any type to `to`, which is f32 or f64.
void convert(ElementType from, const std::byte* elements, std::uint64_t count, ElementType to,
             std::byte* out);

/// The sum of the squares of those of `count` elements that are not NaN, in their order.
double squares_of_numbers(ElementType type, const std::byte* elements, std::uint64_t count);

}  // namespace shardstream::workloads::product
