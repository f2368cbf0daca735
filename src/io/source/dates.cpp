#include "io/source/dates.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/source/joined/coordinates.hpp"

namespace shardstream::io {
namespace {

[[noreturn]] void fail_without_dates(const std::string& dimension, const std::string& dataset,
                                     const std::string& why) {
  throw UsageError(fmt::format(
      "the dimension '{}' of {} has no dates ({}): name a dimension with a time coordinate, such "
      "as 'days since 1950-01-01'",
      printable(dimension), dataset, why));
}

/// The coordinates of a data set and their unit.
struct Times {
  std::string dataset;
  Coordinates coordinates;
  TimeUnit unit;
};

Times times_of(const DatasetPlace& place, std::size_t dimension, const std::string& name) {
  const std::string dataset = place.file.string() + ":" + place.path;
  if (name.empty()) fail_without_dates(std::to_string(dimension), dataset, "it has no name");
  std::optional<Coordinates> found = read_coordinates(place, dimension);
  if (!found) fail_without_dates(name, dataset, "it has no coordinates that are numbers");
  const auto units = attribute_of(*found, "units");
  if (!units) fail_without_dates(name, dataset, "its coordinates have no units");
  try {
    const TimeUnit unit(*units, calendar_named(attribute_of(*found, "calendar").value_or("")));
    return {dataset, std::move(*found), unit};
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("the coordinates '{}' of {} are no dates: {}", printable(name),
                                 dataset, error.what()));
  }
}

Date date_at(const Times& times, std::uint64_t index) {
  const auto whose = [&] {
    return fmt::format("the coordinate '{}' of {} at index {}", printable(times.coordinates.name),
                       times.dataset, index);
  };
  const double value = times.coordinates.values[index];
  if (std::isnan(value)) {
    throw UsageError(
        fmt::format("{} is NaN or missing, so it has no date: correct the file, or "
                    "select other indices",
                    whose()));
  }
  try {
    return times.unit.date(value);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{} has no date: {}", whose(), error.what()));
  }
}

/// The data sets along a dimension: several if they are joined along it.
std::vector<DatasetPlace> places_along(const Source& source, std::size_t dimension) {
  const Origin& origin = source.origin();
  if (dimension == 0 && !origin.joined.empty()) return origin.joined;
  const InputFile& first = origin.files.at(0);
  return {{first.path, first.dataset, source.dimensions()[dimension].extent}};
}

}  // namespace

std::vector<Date> dates_of(const Source& source, std::size_t dimension) {
  const auto& [name, extent, axis] = source.dimensions().at(dimension);
  if (source.origin().files.empty()) {
    fail_without_dates(std::to_string(dimension), source.name(), "generated data have none");
  }
  std::vector<Date> dates;
  std::uint64_t offset = 0;
  for (const DatasetPlace& place : places_along(source, dimension)) {
    const std::uint64_t end = axis.count_below(offset + place.rows);
    if (dates.size() < end) {
      const Times times = times_of(place, dimension, name);
      while (dates.size() < end) dates.push_back(date_at(times, axis[dates.size()] - offset));
    }
    offset += place.rows;
  }
  return dates;
}

}  // namespace shardstream::io
