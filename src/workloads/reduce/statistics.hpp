// The statistics of `reduce`, a row for each: everything that depends on its name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cells/moments.hpp"
#include "kernels/data/element.hpp"
#include "workloads/reduce/cells/cell.hpp"
#include "workloads/reduce/cells/cell_check.hpp"

namespace shardstream::workloads {

/// The inputs of a statistic besides the count and the sum.
enum class Ingredient : std::uint8_t {
  extremes = 1,
  positions = 2,  ///< of the extremes
  squares = 4,    ///< of deviations from the mean
  powers = 8,     ///< their third and fourth powers
  magnitudes = 16
};
constexpr unsigned operator|(Ingredient a, Ingredient b) {
  return static_cast<unsigned>(a) | static_cast<unsigned>(b);
}

struct Statistic {
  /// The type of values.
  enum class Type : std::uint8_t {
    count,     ///< i64
    position,  ///< i64: the number of an element in its cell
    element,   ///< integers of 64 bits for integers, else f64
    sum,       ///< as element, but f64 with weights
    real,      ///< f64
  };
  /// Units of values, for data with units.
  enum class Units : std::uint8_t { one, of_data, of_sum, squared, of_weights };

  /// Properties of the few statistics that have them.
  enum Trait : std::uint8_t {
    ignores_equal_weights = 1,  ///< equal weights have no effect
    without_weights = 2,        ///< it is not defined with weights
  };

  std::string_view name;
  std::string_view other_names = "";  ///< in other programs: "std sd"
  unsigned ingredients = 0;           ///< a set of Ingredient
  Type type = Type::real;
  Units units = Units::one;
  /// The method in the attribute cell_methods of the CF conventions; empty if there is none.
  std::string_view method = "";
  unsigned traits = 0;                  ///< a set of Trait
  CellValue (*value)(const CellView&);  ///< the function from a cell to the value
  reduce::Deviation CellCheck::*check;  ///< the check of its values in cells
  /// The check of its values in leaves; null if only cells have the statistic.
  reduce::Deviation reduce::LeafCheck::*leaf_check = nullptr;
  std::int64_t CellMoments::*index = nullptr;  ///< of the element that is the value

  ElementType type_for(ElementType elements, bool is_weighted) const;
  /// Value `of` with all its digits, "nan" if it is undefined.
  std::string exact_text(const CellValue& of, ElementType elements, bool is_weighted) const;
  /// `of_weights`: nothing without weights. Units that are unknown are empty.
  std::string units_for(const std::string& of_data,
                        const std::optional<std::string>& of_weights) const;
  bool is_count() const { return type == Type::count; }
  bool is_position() const { return type == Type::position; }
  bool is_element() const { return type == Type::element; }
  bool is_sum() const { return type == Type::sum; }
  bool needs(Ingredient ingredient) const {
    return (ingredients & static_cast<unsigned>(ingredient)) != 0;
  }
  bool has(Trait trait) const { return (traits & trait) != 0; }
  /// The name in results: "effective_count".
  std::string key() const;
};

/// All of them, in the order of the help.
std::span<const Statistic> all_statistics();
/// The one with this name. Throws ContractError if there is none.
const Statistic& statistic(std::string_view name);
/// The names of all, as the choices of an option: "count|sum|...".
std::string statistic_choices();
/// The names of statistics in other programs, for OptionRow: "avg=mean std=stddev".
std::string statistic_other_names();

/// The smallest set of moments from which all of these can be computed for elements of this type.
/// Extremes tell whether sums of f64 have exceeded its range, or an element is not finite.
cells::Set set_of(std::span<const std::string> names, ElementType elements, bool is_weighted);

}  // namespace shardstream::workloads
