// The calendars of the CF conventions: dates of time coordinates, which are numbers with units such
// as "days since 1950-01-01".
#pragma once

#include <compare>
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

/// A point in time of a calendar, to the microsecond.
struct Instant {
  std::int64_t day;          ///< number of the day in the calendar
  std::int64_t microsecond;  ///< since midnight

  auto operator<=>(const Instant&) const = default;
};

/// The instant in the middle of two instants of one calendar.
Instant middle(const Instant& one, const Instant& two);

/// The unit and the calendar of a time coordinate.
class TimeUnit {
 public:
  /// Parses the attribute `units` in any case: "UNIT since DATE [TIME] [ZONE]", or CDO's absolute
  /// time "day as %Y%m%d.%f", whose values are dates such as 19910115.5. UNIT is nanoseconds,
  /// microseconds, milliseconds, seconds, minutes, hours, days, weeks or common_years (of 365
  /// days), or an abbreviation that the CF conventions allow, and in the calendar days_360 also
  /// months. DATE is "1950", "1950-1" or "1950-01-01"; TIME is "12", "12:30", "12:30:15" or
  /// "12:30:15.5", after a space or T; ZONE is Z, UTC, GMT, "+1", "+01:30" or "+0130". Throws
  /// UsageError if `units` is anything else, or if the calendar has no such date.
  TimeUnit(const std::string& units, Calendar calendar);

  Calendar calendar() const { return calendar_; }
  /// The time of the coordinate `value`, rounded to the nearest microsecond, in UTC. Throws
  /// UsageError if `value` is not finite, is more than 146 000 years away, or is an absolute time
  /// that the calendar does not have.
  Instant instant(double value) const;
  /// The date of an instant of the calendar.
  Date date(const Instant& instant) const;
  Date date(double value) const { return date(instant(value)); }
  /// The microseconds by which the time grows if the value grows by 1. An absolute time grows by a
  /// day.
  double microseconds() const;

  /// Whether every number means the same time in both units.
  bool operator==(const TimeUnit& other) const;

 private:
  Instant elapsed(double value) const;
  Instant absolute(double value) const;
  void read_reference(std::string_view text);

  std::string units_;
  Calendar calendar_;
  bool is_absolute_ = false;
  std::int64_t unit_ = 0;   // microseconds
  std::int64_t parts_ = 1;  // of a unit in a unit of the coordinates: 1000 nanoseconds
  Instant start_{};         // the reference
};

/// Whether equal instants in these calendars are the same time.
bool count_the_same_days(Calendar one, Calendar two);

}  // namespace shardstream
