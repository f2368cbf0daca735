// Counter-based generators: element i is a pure function of seed, i and type. Every rank, thread
// and backend can generate any part of the data in any order. Only integer operations and exact
// conversions are used, so the bits are the same on every platform.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "types/element.hpp"

namespace shardstream {

enum class Generator : std::uint8_t {
  uniform,  ///< floats in [0, 1) with 24 or 53 random bits; integers over the type's whole range
  ramp  ///< i mod 2^24 (f32), 2^53 (f64), 2^31 (i32), 2^7 (i8), 2^8 (u8); i itself for i64 and u64
};

constexpr std::string_view word_of(Generator generator) {
  return generator == Generator::uniform ? "uniform" : "ramp";
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
/// OOPSLA 2014; constants of Stafford's variant 13): a bijection in which every bit of the result
/// depends on all bits of `z`.
constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// The start of SplitMix64's counter for `seed`. It is mixed, so that the sequences of neighbouring
/// seeds are not shifted copies of each other.
constexpr std::uint64_t stream_of(std::uint64_t seed) {
  return mix(seed ^ 0x6a09e667f3bcc909u);
}

namespace detail {

/// Converts 53 bits exactly to a double, in two halves of 32 bits, because most CPUs can only
/// convert vectors of 32-bit integers.
constexpr double double_of_53_bits(std::uint64_t bits) {
  const auto high = static_cast<std::int32_t>(bits >> 26);
  const auto low = static_cast<std::int32_t>(bits & 0x3ffffffu);
  return static_cast<double>(high) * 0x1p26 + static_cast<double>(low);
}

}  // namespace detail

/// Element `index` of `uniform`; `stream` is stream_of(seed).
template <class T>
constexpr T uniform_element(std::uint64_t stream, std::uint64_t index) {
  const std::uint64_t bits = mix(stream + index * 0x9e3779b97f4a7c15u);
  if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(static_cast<std::int32_t>(bits >> 40)) * 0x1p-24f;
  } else if constexpr (std::is_same_v<T, double>) {
    return detail::double_of_53_bits(bits >> 11) * 0x1p-53;
  } else {
    return static_cast<T>(bits >> (64 - 8 * sizeof(T)));
  }
}

/// Element `index` of `ramp`.
template <class T>
constexpr T ramp_element(std::uint64_t index) {
  if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(static_cast<std::int32_t>(index & 0xffffffu));
  } else if constexpr (std::is_same_v<T, double>) {
    return detail::double_of_53_bits(index & ((std::uint64_t{1} << 53) - 1));
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return static_cast<std::int32_t>(index & 0x7fffffffu);
  } else if constexpr (std::is_same_v<T, std::int8_t>) {
    return static_cast<std::int8_t>(index & 0x7fu);
  } else {
    return static_cast<T>(index);
  }
}

/// Writes elements [first, first + count) to `out`, which must be aligned for `type`. Thread-safe.
void generate(Generator generator, ElementType type, std::uint64_t seed, std::uint64_t first,
              std::uint64_t count, std::byte* out);

}  // namespace shardstream
