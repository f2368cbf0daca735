#include "io/source/dates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

Instant instant_at(const Times& times, std::uint64_t index) {
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
    return times.unit.instant(value);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{} has no date: {}", whose(), error.what()));
  }
}

/// The unit of bounds: their own, or that of their coordinates.
TimeUnit unit_of(const Bounds& bounds, const Times& times) {
  const auto text = [&](const char* name) {
    for (const auto& [key, value] : bounds.attributes) {
      if (key == name) return value;
    }
    return attribute_of(times.coordinates, name).value_or("");
  };
  return {text("units"), calendar_named(text("calendar"))};
}

/// The used indices of one data set along the dimension.
struct UsedIndices {
  const Axis& axis;
  std::uint64_t first, end;  ///< used indices of the source
  std::uint64_t offset;      ///< of the data set along the dimension

  template <class Use>
  void visit(const Use& use) const {
    for (std::uint64_t i = first; i < end; ++i) use(axis[i] - offset);
  }
};

double days(const Instant& instant) {
  constexpr double microseconds = 86'400e6;
  return static_cast<double>(instant.day) + static_cast<double>(instant.microsecond) / microseconds;
}

/// Whether a coordinate is farther from the middle of its bounds than these are from each other:
/// then they are those of another coordinate, or have other units.
bool is_far(const Instant& coordinate, const Instant& lower, const Instant& upper) {
  const double distance = days(coordinate) - days(middle(lower, upper));
  return std::abs(distance) > std::abs(days(upper) - days(lower));
}

/// The middle of the bounds of each index. Throws UsageError if they cannot be used.
std::vector<Instant> middles(const Bounds& bounds, const Times& times, const UsedIndices& used) {
  if (!bounds.problem.empty()) throw UsageError(bounds.problem);
  const TimeUnit unit = unit_of(bounds, times);
  if (!count_the_same_days(unit.calendar(), times.unit.calendar())) {
    throw UsageError("their calendar is another one");
  }
  std::vector<Instant> made;
  used.visit([&](std::uint64_t index) {
    const double lower = bounds.values[2 * index], upper = bounds.values[2 * index + 1];
    if (std::isnan(lower) || std::isnan(upper)) {
      throw UsageError(fmt::format("those of index {} are missing", index));
    }
    const Instant first = unit.instant(lower), last = unit.instant(upper);
    if (is_far(instant_at(times, index), first, last)) {
      throw UsageError(fmt::format("the coordinate of index {} is far outside of them", index));
    }
    made.push_back(middle(first, last));
  });
  return made;
}

/// Collects the dates of one data set after another.
class DateList {
 public:
  void add(const DatasetPlace& place, std::size_t dimension, const std::string& name,
           const UsedIndices& used) {
    const Times times = times_of(place, dimension, name);
    std::vector<Instant> instants;
    used.visit([&](std::uint64_t index) { instants.push_back(instant_at(times, index)); });
    if (const auto own = middles_of(place, dimension, times, used)) {
      instants = *own;
    } else {
      note_ends(times, instants);
    }
    for (const Instant& each : instants) dates_.values.push_back(times.unit.date(each));
  }

  Dates finish(const std::string& name) {
    if (unusable_ > 1) {
      dates_.warnings.back() += fmt::format(" (and the same for {} other files)", unusable_ - 1);
    }
    if (lack_bounds_ && are_month_starts_) {
      dates_.warnings.push_back(fmt::format(
          "all coordinates '{}' without bounds are at midnight of the first day of a month: a mean "
          "of a month that is stamped with its end counts for the next month; if they are such "
          "ends, give the coordinates bounds, or correct them",
          printable(name)));
    }
    return std::move(dates_);
  }

 private:
  /// Nothing, with a warning, if there are bounds that cannot be used.
  std::optional<std::vector<Instant>> middles_of(const DatasetPlace& place, std::size_t dimension,
                                                 const Times& times, const UsedIndices& used) {
    std::optional<Bounds> bounds;
    try {
      bounds = read_bounds(place, dimension);
      if (!bounds) return std::nullopt;
      std::vector<Instant> made = middles(*bounds, times, used);
      dates_.bounds = bounds->name;
      return made;
    } catch (const ContractError&) {
      throw;
    } catch (const Error& error) {
      if (++unusable_ > 1) return std::nullopt;  // one warning suffices for all files
      dates_.warnings.push_back(fmt::format(
          "the dates of {} are its coordinates '{}', since their bounds{} cannot be used: {}",
          times.dataset, printable(times.coordinates.name),
          bounds ? fmt::format(" '{}'", printable(bounds->name)) : "", error.what()));
      return std::nullopt;
    }
  }

  void note_ends(const Times& times, const std::vector<Instant>& instants) {
    lack_bounds_ = true;
    for (const Instant& each : instants) {
      are_month_starts_ =
          are_month_starts_ && each.microsecond == 0 && times.unit.date(each).day == 1;
    }
  }

  Dates dates_;
  std::uint64_t unusable_ = 0;                          // data sets with bounds that cannot be used
  bool lack_bounds_ = false, are_month_starts_ = true;  // of coordinates without bounds
};

/// The data sets along a dimension: several if they are joined along it.
std::vector<DatasetPlace> places_along(const Source& source, std::size_t dimension) {
  const Origin& origin = source.origin();
  if (dimension == 0 && !origin.joined.empty()) return origin.joined;
  const InputFile& first = origin.files.at(0);
  return {{first.path, first.dataset, source.dimensions()[dimension].extent}};
}

}  // namespace

Dates dates_of(const Source& source, std::size_t dimension) {
  const auto& [name, extent, axis] = source.dimensions().at(dimension);
  if (source.origin().files.empty()) {
    fail_without_dates(std::to_string(dimension), source.name(), "generated data have none");
  }
  DateList dates;
  std::uint64_t offset = 0, first = 0;
  for (const DatasetPlace& place : places_along(source, dimension)) {
    const std::uint64_t end = axis.count_below(offset + place.rows);
    if (first < end) dates.add(place, dimension, name, {axis, first, end, offset});
    first = std::max(first, end);
    offset += place.rows;
  }
  return dates.finish(name);
}

}  // namespace shardstream::io
