#include "io/source/joined/coordinates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "core/calendar.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "io/source/coordinate_scale.hpp"

namespace shardstream::io {
namespace {

CommonScale common_scale(const Coordinates& one, const Coordinates& two) {
  return {{one.type, one.attributes}, {two.type, two.attributes}};
}

/// The first position at which the coordinates have another meaning.
std::optional<std::size_t> first_difference(const Coordinates& one, const Coordinates& two,
                                            const CommonScale& scale) {
  const auto equal = [&](double a, double b) { return scale.are_same(a, b); };
  const auto [at, other] = std::ranges::mismatch(one.values, two.values, equal);
  if (at == one.values.end()) return std::nullopt;
  return static_cast<std::size_t>(at - one.values.begin());
}

/// "31 days since 2000-01-01"
std::string text_of(const Coordinates& coordinates, std::size_t position) {
  const std::string units = attribute_of(coordinates, "units").value_or("");
  return fmt::format("{}{}{}", coordinates.values[position], units.empty() ? "" : " ",
                     printable(units));
}

/// The type that holds every value of both, as numpy.promote_types() gives it.
ElementType common_type(ElementType a, ElementType b) {
  using enum ElementType;
  const auto either = [&](ElementType type) { return a == type || b == type; };
  const auto other = [&](ElementType type) { return a == type ? b : a; };
  if (a == b) return a;
  if (either(f64)) return f64;
  if (either(f32)) return other(f32) == i8 || other(f32) == u8 ? f32 : f64;
  if (either(u64)) return other(u64) == u8 ? u64 : f64;
  return either(i64) ? i64 : i32;
}

/// Appends the coordinates of the next file.
void append(const Coordinates& own, Coordinates& all) {
  const bool differ = !all.are_f32.empty() || own.type != all.type;
  if (differ && all.are_f32.empty()) {
    all.are_f32.assign(all.values.size(), all.type == ElementType::f32);
  }
  if (differ) {
    all.are_f32.resize(all.are_f32.size() + own.values.size(), own.type == ElementType::f32);
  }
  const auto is_wide = [](ElementType type) {
    return type == ElementType::i64 || type == ElementType::u64;
  };
  all.hold_wide_integers = all.hold_wide_integers || is_wide(all.type) || is_wide(own.type);
  all.type = common_type(all.type, own.type);
  all.values.insert(all.values.end(), own.values.begin(), own.values.end());
}

std::unique_ptr<OpenDataset> open(const DatasetPlace& place) {
  return open_data_file(place.file)->open(place.path, place.file.string() + ":" + place.path);
}

void expect_same_units(const Origin& origin) {
  if (!origin.mixed_units.empty()) throw UsageError(origin.mixed_units);
}

}  // namespace

AllCoordinates read_all_coordinates(const OpenFile& opened, DatasetPlan& plan) {
  const auto dataset = opened.open(plan.path, plan.about.name);
  AllCoordinates all;
  for (std::size_t d = 0; d < plan.dimensions.size(); ++d) {
    all.emplace_back();
    const std::string& dimension = plan.dimensions[d].name;
    if (dimension.empty()) continue;
    try {
      all.back() = dataset->coordinates(d);
    } catch (const ContractError&) {
      throw;
    } catch (const Error& error) {
      plan.origin.warnings.push_back(
          fmt::format("the coordinates '{}' of {} are not compared with those of other files: {}",
                      printable(dimension), plan.about.name, error.what()));
    }
  }
  return all;
}

void CoordinateCheck::add(const DatasetPlan& plan, AllCoordinates coordinates) {
  const std::string file = plan.file.string();
  if (coordinates.empty() || !coordinates[0]) {
    all_have_some_ = false;
  } else {
    note_first_dimension(file, *coordinates[0]);
  }
  for (std::size_t d = 0; d < coordinates.size(); ++d) {
    if (!coordinates[d]) continue;
    const auto [known, is_new] = known_.try_emplace(d);
    if (is_new) {
      known->second = {file, std::move(*coordinates[d])};
      continue;
    }
    if (d == 0) continue;
    expect_same(d, known->second, {file, std::move(*coordinates[d])});
  }
}

void CoordinateCheck::expect_same(std::size_t dimension, const Known& one, const Known& two) {
  const CommonScale scale = common_scale(one.coordinates, two.coordinates);
  std::string difference;
  if (!scale.conflict().empty()) {
    difference = fmt::format("they have the units {}", scale.conflict());
  } else if (const auto at = first_difference(one.coordinates, two.coordinates, scale)) {
    difference = fmt::format("at position {}, they are {} and {}", *at,
                             text_of(one.coordinates, *at), text_of(two.coordinates, *at));
  }
  if (difference.empty()) return;
  throw UsageError(
      fmt::format("'{}' and '{}' cannot be joined, since their coordinates '{}' of dimension {} "
                  "differ ({}): choose a pattern for files on the same grid",
                  one.file, two.file, printable(one.coordinates.name), dimension, difference));
}

void CoordinateCheck::note_first_dimension(const std::string& file, const Coordinates& own) {
  spans_.push_back({file, own.values.front(), own.values.back()});
  const auto first = known_.find(0);
  if (first == known_.end() || !mixed_units_.empty()) return;
  const auto& [other, theirs] = first->second;
  const auto text = [](const Coordinates& of, const char* name) {
    return attribute_of(of, name).value_or("none");
  };
  const bool have_units = attribute_of(theirs, "units").has_value();
  if (have_units == attribute_of(own, "units").has_value() &&
      common_scale(theirs, own).has_same_numbers()) {
    return;
  }
  const char* const name = text(theirs, "units") == text(own, "units") ? "calendar" : "units";
  mixed_units_ = fmt::format(
      "the coordinates '{}' have other {} in '{}' ({}) than in '{}' ({}), so the same number "
      "means different things in these files",
      printable(own.name), name, other, printable(text(theirs, name)), file,
      printable(text(own, name)));
}

std::string CoordinateCheck::disorder() const {
  if (!all_have_some_ || !mixed_units_.empty() || spans_.size() < 2) return {};
  const bool descends = spans_.back().last < spans_.front().first;
  for (std::size_t i = 1; i < spans_.size(); ++i) {
    const Span &before = spans_[i - 1], &after = spans_[i];
    if (descends ? after.first < before.last : after.first > before.last) continue;
    return fmt::format(
        "the coordinates '{}' of '{}' begin with {} and do not go on after those of '{}', which "
        "end with {}: files are joined in the order of their names",
        printable(known_.at(0).coordinates.name), after.file, after.first, before.file,
        before.last);
  }
  return {};
}

std::optional<Coordinates> read_coordinates(const DatasetPlace& place, std::size_t dimension) {
  return open(place)->coordinates(dimension);
}

std::optional<Bounds> read_bounds(const DatasetPlace& place, std::size_t dimension) {
  return open(place)->bounds(dimension);
}

std::optional<Coordinates> joined_coordinates(const Origin& origin) {
  expect_same_units(origin);
  std::uint64_t rows = 0;
  for (const DatasetPlace& place : origin.joined) rows += place.rows;
  if (rows > max_coordinates) return std::nullopt;
  std::optional<Coordinates> all;
  for (const DatasetPlace& place : origin.joined) {
    auto own = read_coordinates(place, 0);
    if (!own) return std::nullopt;
    if (!all) {
      all = std::move(own);
      continue;
    }
    if (!common_scale(*all, *own).has_same_numbers()) {
      throw UsageError(fmt::format("the coordinates '{}' have other units in '{}' than in '{}'",
                                   printable(own->name), place.file.string(),
                                   origin.joined.front().file.string()));
    }
    append(*own, *all);
  }
  return all;
}

std::optional<Coordinates> joined_times(const Origin& origin) {
  constexpr double microseconds_per_day = 86'400e6;
  constexpr auto units = "microseconds since 1970-01-01";
  Coordinates all{"", ElementType::f64, {}, {{"units", units}}};
  std::optional<TimeUnit> common;
  for (const DatasetPlace& place : origin.joined) {
    const auto own = read_coordinates(place, 0);
    const auto own_units = own ? attribute_of(*own, "units") : std::nullopt;
    if (!own_units || all.values.size() + own->values.size() > max_coordinates) return std::nullopt;
    const std::string calendar = attribute_of(*own, "calendar").value_or("");
    const TimeUnit unit(*own_units, calendar_named(calendar));
    if (!common) {
      all.name = own->name;
      if (!calendar.empty()) all.attributes.emplace_back("calendar", calendar);
      common.emplace(units, unit.calendar());
    }
    if (!count_the_same_days(unit.calendar(), common->calendar())) return std::nullopt;
    if (own->type == ElementType::f32) all.type = ElementType::f32;
    const Instant start = common->instant(0);
    for (const double value : own->values) {
      const Instant instant = std::isnan(value) ? start : unit.instant(value);
      const double days = static_cast<double>(instant.day - start.day);
      all.values.push_back(std::isnan(value) ? value
                                             : days * microseconds_per_day +
                                                   static_cast<double>(instant.microsecond));
    }
  }
  return all;
}

std::optional<double> joined_coordinate(const Origin& origin, std::uint64_t row) {
  expect_same_units(origin);
  for (const DatasetPlace& place : origin.joined) {
    if (row >= place.rows) {
      row -= place.rows;
      continue;
    }
    const auto own = read_coordinates(place, 0);
    return own && row < own->values.size() ? std::optional(own->values[row]) : std::nullopt;
  }
  throw ContractError("a position is inside the joined data set");
}

}  // namespace shardstream::io
