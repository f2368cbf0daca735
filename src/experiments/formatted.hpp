// Formatted text for .cu files, because nvcc cannot compile the header of {fmt}.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
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

/// "stride 4" from formatted("stride {}", 4).
template <class... Values>
std::string formatted(std::string_view pattern, const Values&... values) {
  return format_cells(pattern, {to_cell(values)...});
}

}  // namespace shardstream::experiments
