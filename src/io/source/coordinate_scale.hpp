// The meaning of the numbers of coordinates: units, as the CF conventions and UDUNITS spell them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/calendar.hpp"
#include "types/element.hpp"

namespace shardstream::io {

/// Attributes of coordinates, such as `units`, `calendar` and `axis`.
using CoordinateAttributes = std::span<const std::pair<std::string, std::string>>;

/// Whether coordinates are longitudes in degrees, so that x and x + 360 are the same place: their
/// units are a spelling of degrees_east, or their `standard_name` or `axis` says so, and their
/// units are degrees or missing. Without all of these, the name of the coordinates decides.
bool are_longitudes(std::string_view name, CoordinateAttributes attributes);

/// The meaning of the numbers of coordinates.
class CoordinateScale {
 public:
  /// `type`: of the coordinates in the file. The attributes `units` and `calendar` count.
  CoordinateScale(ElementType type, CoordinateAttributes attributes);

  /// A number, and the largest error that its type and the conversion may have caused.
  struct Number {
    long double value, error;

    bool operator==(const Number& other) const;
  };

 private:
  friend class CommonScale;

  /// Units with a quantity that other units may have, too, and the factor to the first of them.
  struct Known {
    std::string_view quantity;
    double factor;
  };
  bool has_units() const { return !units_.empty(); }
  bool has_same_numbers(const CoordinateScale& other) const;
  Number number_in_file(double value) const;
  Number number_of_time(double value) const;

  ElementType type_;
  std::string units_;     // as in the file; empty if there are none, or if they are 1
  std::string calendar_;  // as in the file
  std::optional<Known> known_;
  std::optional<TimeUnit> time_;
};

/// Compares coordinates of two data sets by their meaning. Units with the same meaning may be
/// spelled differently, and times may have different units if the instants are equal. Without units
/// on one side, the numbers are compared. They are rounded to f32 if one of the types is f32.
class CommonScale {
 public:
  CommonScale(CoordinateScale one, CoordinateScale two);

  /// Why the numbers cannot be compared: "'m' and 'K'", the units of both; empty if they can.
  const std::string& conflict() const { return conflict_; }
  /// Whether equal numbers have the same meaning on both sides, and others do not.
  bool has_same_numbers() const { return has_same_numbers_; }
  /// Coordinates as numbers on the common scale. Only without a conflict. Throws UsageError for a
  /// value that is no time in its units; NaN stays NaN.
  CoordinateScale::Number of_one(double value) const { return number(one_, value); }
  CoordinateScale::Number of_two(double value) const { return number(two_, value); }
  /// Whether two coordinates have the same meaning. Missing ones do.
  bool are_same(double of_one, double of_two) const;

 private:
  CoordinateScale::Number number(const CoordinateScale& side, double value) const;

  CoordinateScale one_, two_;
  bool has_same_numbers_, is_f32_;
  std::string conflict_;
};

}  // namespace shardstream::io
