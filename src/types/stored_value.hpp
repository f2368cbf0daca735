// Single stored values: their bits, numbers and texts; and the text of a conversion.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "types/convert_element.hpp"
#include "types/stored.hpp"

namespace shardstream {

/// A number that an attribute or an option states.
using Number = std::variant<std::int64_t, std::uint64_t, double>;

/// Calls f with the value of `bits`, a number of C++ (float for f16), and returns its value.
template <class F>
decltype(auto) with_value(std::uint64_t bits, StoredType type, F&& f) {
  return with_stored_type(type, [&](auto id) -> decltype(auto) {
    return f(conversion::number_of_bits<typename decltype(id)::type>(bits));
  });
}

/// The bits of `number` as a value of `type`, in the low bytes of a word. Nothing if the type does
/// not have this value. A float has all integers that equal it as f64, as in numpy.
std::optional<std::uint64_t> bits_of(const Number& number, StoredType type);

/// Whether the value is NaN.
bool is_nan(std::uint64_t bits, StoredType type);

/// The bits of an integer that is missing for certain: the first of `missing.value`, or the integer
/// below `missing.min`, or the one above `missing.max`. Nothing if there is none, and for floats.
std::optional<std::uint64_t> missing_element(const MissingValues& missing, StoredType type);

/// All digits of a value.
std::string text_of(std::uint64_t bits, StoredType type);

/// The conversion in words: "i16 to f32, * 0.01 + 273.15 (f64), missing: -32767 or outside [0, 5]".
/// Conversions that give different elements have different texts.
std::string text_of(const Conversion& conversion);

}  // namespace shardstream
