// The statistics of `reduce`, a row for each: everything that depends on its name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cells/moments.hpp"
#include "types/element.hpp"
#include "workloads/reduce/cells/cell.hpp"
#include "workloads/reduce/cells/cell_check.hpp"

namespace shardstream::workloads {

struct Statistic {
  /// The type of values.
  enum class Type : std::uint8_t {
    count,        ///< i64: of the values; always defined
    other_count,  ///< i64
    position,     ///< i64: the number of an element in its cell
    element,      ///< integers of 64 bits for integers, else f64
    sum,          ///< as element, but f64 with weights
    real,         ///< f64
  };
  /// Units of values, for data with units.
  enum class Units : std::uint8_t { one, of_data, of_sum, squared, of_weights, unknown };

  /// Properties of the few statistics that have them.
  enum Trait : std::uint8_t {
    ignores_equal_weights = 1,  ///< equal weights have no effect
    without_weights = 2,        ///< it is not defined with weights
  };

  std::string_view name;
  std::string_view other_names = "";  ///< in other programs: "std sd"
  std::string_view meaning = "";      ///< for the help, if the name does not say it: "the excess"
  cells::Quantities needs = {};       ///< besides the count and the sum
  Type type = Type::real;
  Units units = Units::one;
  /// The method in the attribute cell_methods of the CF conventions; empty if there is none.
  std::string_view method = "";
  unsigned traits = 0;                  ///< a set of Trait
  CellValue (*value)(const CellView&);  ///< the function from a cell to the value
  /// The check of its values: that of the quantity with the largest errors.
  Deviation CellCheck::*check;
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
/// The meanings of statistics for the help: "kurtosis is the excess; ...".
std::string statistic_meanings();
/// The names of statistics in other programs, for OptionRow: "avg=mean std=stddev".
std::string statistic_other_names();

/// The quantities from which all of these can be computed for elements of this type. Extremes tell
/// whether weighted sums, or sums of f64, have exceeded its range, and whether an element is not
/// finite; they are always there with squares.
cells::Quantities quantities_of(std::span<const std::string> names, ElementType elements,
                                bool is_weighted);

}  // namespace shardstream::workloads
