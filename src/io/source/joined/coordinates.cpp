#include "io/source/joined/coordinates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/hdf5/lookup.hpp"

namespace shardstream::io {
namespace {

/// The first position at which the coordinates differ.
std::optional<std::size_t> first_difference(const Coordinates& one, const Coordinates& two) {
  const bool as_f32 = one.type == ElementType::f32 || two.type == ElementType::f32;
  const auto equal = [&](double a, double b) { return are_same_coordinates(a, b, as_f32); };
  const auto [at, other] = std::ranges::mismatch(one.values, two.values, equal);
  if (at == one.values.end()) return std::nullopt;
  return static_cast<std::size_t>(at - one.values.begin());
}

void expect_same_units(const Origin& origin) {
  if (!origin.mixed_units.empty()) throw UsageError(origin.mixed_units);
}

}  // namespace

AllCoordinates read_all_coordinates(const hdf5::File& opened, DatasetPlan& plan) {
  const auto dataset = open_dataset(opened, plan.file.string(), plan.path);
  AllCoordinates all;
  for (std::size_t d = 0; d < plan.about.dimensions.size(); ++d) {
    all.emplace_back();
    const std::string& dimension = plan.about.dimensions[d].name;
    if (plan.about.scalar || dimension.empty()) continue;
    try {
      all.back() = read_coordinates(dataset, d, plan.about.name);
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
    const Coordinates &one = known->second.coordinates, &two = *coordinates[d];
    const auto position = first_difference(one, two);
    if (!position) continue;
    throw UsageError(fmt::format(
        "'{}' and '{}' cannot be joined, since their coordinates '{}' differ (at position {}, "
        "they are {} and {}): choose a pattern for files on the same grid",
        known->second.file, file, printable(one.name), *position, one.values[*position],
        two.values[*position]));
  }
}

void CoordinateCheck::note_first_dimension(const std::string& file, const Coordinates& own) {
  spans_.push_back({file, own.values.front(), own.values.back()});
  const auto first = known_.find(0);
  if (first == known_.end() || !mixed_units_.empty()) return;
  const auto& [other, theirs] = first->second;
  for (const char* const name : {"units", "calendar"}) {
    const std::string one = attribute_of(theirs, name).value_or("none");
    const std::string two = attribute_of(own, name).value_or("none");
    if (one == two) continue;
    mixed_units_ = fmt::format(
        "the coordinates '{}' have other {} in '{}' ({}) than in '{}' ({}), so the same number "
        "means different things in these files",
        printable(own.name), name, other, printable(one), file, printable(two));
    return;
  }
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
  const hdf5::AtWork at_work(place.file.string(), hdf5::Stage::opening);
  const hdf5::Lock lock;
  const auto file = open_input_file(place.file);
  const auto dataset = open_dataset(file, place.file.string(), place.path);
  return read_coordinates(dataset, dimension, place.file.string() + ":" + place.path);
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
    } else {
      all->values.insert(all->values.end(), own->values.begin(), own->values.end());
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
