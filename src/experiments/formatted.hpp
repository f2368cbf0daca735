// Formatted text for .cu files, because nvcc cannot compile the header of {fmt}.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/table.hpp"

namespace shardstream::experiments {

/// fmt::format() with a pattern that is checked at run time. Throws ContractError if the values do
/// not fit it.
std::string format_cells(std::string_view pattern, const std::vector<Cell>& values);

inline Cell to_cell(std::integral auto value) {
  return static_cast<std::int64_t>(value);
}
inline Cell to_cell(std::floating_point auto value) {
  return static_cast<double>(value);
}
inline Cell to_cell(std::string value) {
  return value;
}

/// A pattern for `Count` values, all without a number ("{}") or all with one ("{0}"). The compiler
/// rejects others.
template <std::size_t Count>
class Pattern {
 public:
  template <std::size_t Size>
  consteval Pattern(const char (&text)[Size]) : text_(text, Size - 1) {
    std::size_t unnumbered = 0, numbered = 0;
    for (std::size_t i = 0; i + 1 < text_.size(); ++i) {
      if (text_[i] != '{') continue;
      const char next = text_[++i];
      if (next == '{') continue;
      const bool is_numbered = next >= '0' && next <= '9';
      if (is_numbered && next - '0' >= static_cast<int>(Count)) throw "a number without a value";
      ++(is_numbered ? numbered : unnumbered);
    }
    if (unnumbered > 0 && numbered > 0) throw "values with and without numbers";
    if (numbered == 0 && unnumbered != Count) throw "as many places as values";
  }
  constexpr std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

/// "stride 4" from formatted("stride {}", 4).
template <class... Values>
std::string formatted(std::type_identity_t<Pattern<sizeof...(Values)>> pattern,
                      const Values&... values) {
  return format_cells(pattern.text(), {to_cell(values)...});
}

/// A ratio with three digits, "2.31" or "1930": never with an exponent if it is at least 0.001.
std::string ratio_text(double ratio);

}  // namespace shardstream::experiments
