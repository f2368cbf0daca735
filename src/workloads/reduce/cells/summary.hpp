// The values of an operation over all cells: their extremes, and the cells without a right value.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "workloads/reduce/cells/cell.hpp"

namespace shardstream::workloads {

/// Integers that can stand for undefined values of a column of this type, in the order of
/// preference. Attributes hold 64 bits with a sign.
constexpr std::array<std::int64_t, 2> undefined_integers(ElementType column) {
  using Limits = std::numeric_limits<std::int64_t>;
  if (column == ElementType::u64) return {Limits::max(), Limits::max() - 1};
  return {Limits::min(), Limits::max()};
}

/// The values of one operation over all cells.
struct CellSummary {
  CellValue min{0, std::numeric_limits<double>::infinity()}, max{0, -min.real};
  std::uint64_t defined = 0, undefined = 0, overflows = 0, underflows = 0;
  std::array<bool, 2> is_value{};  ///< for each of undefined_integers()

  void add(const CellValue& value, const std::array<std::int64_t, 2>& undefined_integers) {
    overflows += value.flaw == Flaw::overflow ? 1 : 0;
    underflows += value.flaw == Flaw::underflow ? 1 : 0;
    if (value.real != value.real) {
      ++undefined;
      return;
    }
    ++defined;
    for (std::size_t i = 0; i < is_value.size(); ++i) {
      const auto bits = static_cast<std::uint64_t>(undefined_integers[i]);
      is_value[i] = is_value[i] || value.bits == bits;
    }
    min = std::min(min, value, is_less);
    max = std::max(max, value, is_less);
  }
  void add(const CellSummary& other) {
    min = std::min(min, other.min, is_less);
    max = std::max(max, other.max, is_less);
    defined += other.defined;
    undefined += other.undefined;
    overflows += other.overflows;
    underflows += other.underflows;
    for (std::size_t i = 0; i < is_value.size(); ++i) is_value[i] |= other.is_value[i];
  }

 private:
  /// Integers that are equal as doubles have the same sign, so their bits have their order.
  static bool is_less(const CellValue& a, const CellValue& b) {
    return a.real < b.real || (a.real == b.real && a.bits < b.bits);
  }
};

}  // namespace shardstream::workloads
