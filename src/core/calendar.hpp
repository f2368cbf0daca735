// The calendars of the CF conventions: dates of time coordinates, which are numbers with units such
// as "days since 1950-01-01".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardstream {

/// The calendars of the CF conventions.
enum class Calendar : std::uint8_t {
  standard,  ///< Julian until 1582-10-04, Gregorian from 1582-10-15, the day after
  proleptic_gregorian,
  julian,
  noleap,    ///< years of 365 days
  all_leap,  ///< years of 366 days
  days_360,  ///< months of 30 days
};

/// The calendar with this value of the attribute `calendar`, in any case: "standard" or
/// "gregorian", "proleptic_gregorian", "julian", "noleap" or "365_day", "all_leap" or "366_day",
/// "360_day". An empty name is the standard calendar. Throws UsageError for any other.
Calendar calendar_named(std::string_view name);

/// A date. The calendars standard and julian have no year 0: the year -1 precedes the year 1.
struct Date {
  std::int64_t year;
  int month, day;  ///< from 1

  bool operator==(const Date&) const = default;
};

/// The unit and the calendar of a time coordinate.
class TimeUnit {
 public:
  /// Parses the attribute `units`: "UNIT since DATE [TIME] [ZONE]" in any case. UNIT is
  /// microseconds, milliseconds, seconds, minutes, hours or days, or an abbreviation that the CF
  /// conventions allow, and in the calendar days_360 also months. DATE is "1950", "1950-1" or
  /// "1950-01-01"; TIME is "12", "12:30", "12:30:15" or "12:30:15.5", after a space or T; ZONE is
  /// Z, UTC, GMT, "+1", "+01:30" or "+0130". Throws UsageError if `units` is anything else, or if
  /// the calendar has no such date.
  TimeUnit(const std::string& units, Calendar calendar);

  /// The date of the coordinate `value`, rounded to the nearest microsecond, in UTC. Throws
  /// UsageError if `value` is not finite, or more than 146 000 years away.
  Date date(double value) const;

 private:
  std::string units_;
  Calendar calendar_;
  std::int64_t unit_;               // microseconds
  std::int64_t first_day_, start_;  // of the reference: day number, microseconds since midnight
};

}  // namespace shardstream
