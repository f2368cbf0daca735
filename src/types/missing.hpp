// The element that stands for a missing value after a conversion.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace shardstream {

/// The NaN that stands for a missing value. Its payload is one that no processor generates and no
/// common program writes, so it can be told from NaNs in the data.
template <std::floating_point T>
constexpr T missing_nan() {
  if constexpr (sizeof(T) == 4) {
    return std::bit_cast<T>(std::uint32_t{0x7fe5d1a3});
  } else {
    return std::bit_cast<T>(std::uint64_t{0x7ffc'ba34'6e9d'1c57});
  }
}

/// Whether `x` stands for a missing value. An integer does if it equals `marker`.
template <class T>
constexpr bool is_missing_element(T x, [[maybe_unused]] T marker) {
  if constexpr (std::floating_point<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    return std::bit_cast<Bits>(x) == std::bit_cast<Bits>(missing_nan<T>());
  } else {
    return x == marker;
  }
}

}  // namespace shardstream
