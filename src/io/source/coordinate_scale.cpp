#include "io/source/coordinate_scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <limits>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/description/dimension.hpp"

namespace shardstream::io {
namespace {

constexpr std::string_view north = "degrees north", east = "degrees east", angle = "degrees";

std::string attribute(CoordinateAttributes attributes, std::string_view name) {
  const auto found = std::ranges::find(attributes, name, &CoordinateAttributes::value_type::first);
  return found == attributes.end() ? "" : std::string(trim(found->second));
}

/// In lower case, without blanks and underscores: "degreesn" for "degrees_N".
std::string simplified(std::string_view units) {
  std::string made;
  for (const char c : units) {
    if (c != '_' && c != ' ') made += lower(c);
  }
  return made;
}

struct Spellings {
  std::string_view quantity;
  double factor;
  std::initializer_list<std::string_view> names;  ///< simplified
};

const Spellings* spellings_of(std::string_view units) {
  static const Spellings all[] = {
      {north, 1, {"degreesnorth", "degreenorth", "degreesn", "degreen"}},
      {east, 1, {"degreeseast", "degreeeast", "degreese", "degreee"}},
      {angle, 1, {"degrees", "degree", "deg", "arcdegrees", "arcdegree"}},
      {"length", 1, {"m", "meter", "meters", "metre", "metres"}},
      {"length", 1000, {"km", "kilometer", "kilometers", "kilometre", "kilometres"}},
      {"pressure", 1, {"pa", "pascal", "pascals"}},
      {"pressure",
       100,
       {"hpa", "hectopascal", "hectopascals", "mb", "mbar", "millibar", "millibars"}},
      {"pressure", 1e4, {"dbar", "decibar", "decibars"}}};
  const std::string wanted = simplified(units);
  const auto* const found = std::ranges::find_if(all, [&](const Spellings& each) {
    return std::ranges::find(each.names, wanted) != each.names.end();
  });
  return found == std::end(all) ? nullptr : found;
}

/// Plain degrees may be latitudes and longitudes.
bool are_one_quantity(std::string_view a, std::string_view b) {
  const auto is_angle = [](std::string_view q) { return q == north || q == east || q == angle; };
  return a == b || (is_angle(a) && is_angle(b) && (a == angle || b == angle));
}

/// The unit of a time; nothing if the attributes have none.
std::optional<TimeUnit> time_unit(const std::string& units, const std::string& calendar) {
  try {
    return TimeUnit(units, calendar_named(calendar));
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

/// The distance to the next number of the type.
double spacing(ElementType type, double value) {
  const double size = std::abs(value);
  if (type != ElementType::f32) return std::nextafter(size, INFINITY) - size;
  const auto as_f32 = static_cast<float>(size);
  return static_cast<double>(std::nextafter(as_f32, INFINITY)) - static_cast<double>(as_f32);
}

}  // namespace

bool are_longitudes(std::string_view name, CoordinateAttributes attributes) {
  const std::string units = attribute(attributes, "units");
  const Spellings* const known = spellings_of(units);
  if (known != nullptr && known->quantity == east) return true;
  if (!units.empty() && (known == nullptr || known->quantity != angle)) return false;
  const std::string standard_name = attribute(attributes, "standard_name");
  const std::string axis = simplified(attribute(attributes, "axis"));
  if (units.empty() && standard_name.empty() && axis.empty()) {
    return name == "lon" || name == "longitude";
  }
  return standard_name == "longitude" || standard_name == "grid_longitude" || axis == "x";
}

bool CoordinateScale::Number::operator==(const Number& other) const {
  if (std::isnan(value) || std::isnan(other.value)) {
    return std::isnan(value) && std::isnan(other.value);
  }
  return std::abs(value - other.value) <= error + other.error;
}

CoordinateScale::CoordinateScale(ElementType type, CoordinateAttributes attributes)
    : type_(type),
      units_(attribute(attributes, "units")),
      calendar_(attribute(attributes, "calendar")) {
  if (units_ == "1") units_.clear();
  if (const Spellings* const found = spellings_of(units_)) {
    known_ = Known{found->quantity, found->factor};
  } else if (has_units()) {
    time_ = time_unit(units_, calendar_);
  }
}

bool CoordinateScale::has_same_numbers(const CoordinateScale& other) const {
  if (!has_units() || !other.has_units()) return true;
  if (time_ && other.time_) return *time_ == *other.time_;
  if (known_ && other.known_) {
    return known_->factor == other.known_->factor &&
           are_one_quantity(known_->quantity, other.known_->quantity);
  }
  const bool count_time = units_.find("since") != std::string::npos;
  return simplified(units_) == simplified(other.units_) && !time_ && !other.time_ &&
         (!count_time || simplified(calendar_) == simplified(other.calendar_));
}

CoordinateScale::Number CoordinateScale::number_in_file(double value) const {
  const double factor = known_ ? known_->factor : 1;
  return {static_cast<long double>(value) * factor,
          static_cast<long double>(spacing(type_, value)) * factor};
}

CoordinateScale::Number CoordinateScale::number_of_time(double value) const {
  constexpr long double microseconds_per_day = 86'400e6L, rounding = 1;
  if (std::isnan(value)) return {value, 0};
  const Instant instant = time_->instant(value);
  return {static_cast<long double>(instant.day) * microseconds_per_day +
              static_cast<long double>(instant.microsecond),
          static_cast<long double>(spacing(type_, value)) * time_->microseconds() + rounding};
}

CommonScale::CommonScale(CoordinateScale one, CoordinateScale two)
    : one_(std::move(one)),
      two_(std::move(two)),
      has_same_numbers_(one_.has_same_numbers(two_)),
      is_f32_(one_.type_ == ElementType::f32 || two_.type_ == ElementType::f32) {
  if (has_same_numbers_) return;
  const bool are_times = one_.time_ && two_.time_;
  const bool are_comparable =
      are_times ? count_the_same_days(one_.time_->calendar(), two_.time_->calendar())
                : one_.known_ && two_.known_ &&
                      are_one_quantity(one_.known_->quantity, two_.known_->quantity);
  if (are_comparable) return;
  const auto words = [&](const CoordinateScale& side) {
    const bool has_calendar = one_.calendar_ != two_.calendar_ && !side.calendar_.empty();
    return excerpt(side.units_) + (has_calendar ? " (" + printable(side.calendar_) + ")" : "");
  };
  conflict_ = fmt::format("{} and {}", words(one_), words(two_));
}

CoordinateScale::Number CommonScale::number(const CoordinateScale& side, double value) const {
  if (has_same_numbers_) return {is_f32_ ? static_cast<float>(value) : value, 0};
  return side.time_ ? side.number_of_time(value) : side.number_in_file(value);
}

bool CommonScale::are_same(double of_one, double of_two) const {
  if (has_same_numbers_) return are_same_coordinates(of_one, of_two, is_f32_);
  return this->of_one(of_one) == this->of_two(of_two);
}

}  // namespace shardstream::io
