// Keys of elements: unsigned integers in the order of the values. Order statistics of keys are
// those of the elements, on every backend and in any order of the work.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace shardstream::order {

template <class T>
using Key = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// The largest key. All integers from 0 on are keys.
template <class T>
inline constexpr Key<T> max_key = std::numeric_limits<Key<T>>::max() >>
                                  (8 * (sizeof(Key<T>) - sizeof(T)));

/// -0 < +0. NaNs are above infinity or, with a sign, below -infinity.
template <class T>
constexpr Key<T> key_of(T x) {
  constexpr Key<T> top = max_key<T> / 2 + 1;
  if constexpr (std::floating_point<T>) {
    const auto bits = std::bit_cast<Key<T>>(x);
    const auto sign = static_cast<std::make_signed_t<Key<T>>>(bits) >> (8 * sizeof(T) - 1);
    return bits ^ (static_cast<Key<T>>(sign) | top);
  } else if constexpr (std::signed_integral<T>) {
    return static_cast<std::make_unsigned_t<T>>(x) ^ top;
  } else {
    return x;
  }
}

/// The element with this key.
template <class T>
constexpr T value_of(Key<T> key) {
  constexpr Key<T> top = max_key<T> / 2 + 1;
  if constexpr (std::floating_point<T>) {
    return std::bit_cast<T>(key >= top ? key ^ top : ~key);
  } else if constexpr (std::signed_integral<T>) {
    return static_cast<T>(key ^ top);
  } else {
    return static_cast<T>(key);
  }
}

/// The keys of all values that are not NaN.
template <class T>
inline constexpr Key<T> lowest_key = [] {
  if constexpr (std::floating_point<T>) return key_of(-std::numeric_limits<T>::infinity());
  return Key<T>{0};
}();
template <class T>
inline constexpr Key<T> highest_key = [] {
  if constexpr (std::floating_point<T>) return key_of(std::numeric_limits<T>::infinity());
  return max_key<T>;
}();

/// The elements that stand for missing values: NaNs, or one integer.
template <class T>
struct Missing {
  bool has_marker = false;  ///< only for integers
  T marker = {};

  constexpr bool operator()([[maybe_unused]] T x) const {
    if constexpr (std::floating_point<T>) return x != x;
    return has_marker && x == marker;
  }
};

}  // namespace shardstream::order
