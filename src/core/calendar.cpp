#include "core/calendar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream {
namespace {

constexpr std::int64_t second = 1'000'000, minute = 60 * second, hour = 60 * minute,
                       day = 24 * hour;  // in microseconds

struct CalendarName {
  std::string_view name;
  Calendar calendar;
};
/// The first name of each calendar is the one in messages.
constexpr CalendarName names[] = {{"standard", Calendar::standard},
                                  {"gregorian", Calendar::standard},
                                  {"proleptic_gregorian", Calendar::proleptic_gregorian},
                                  {"julian", Calendar::julian},
                                  {"noleap", Calendar::noleap},
                                  {"365_day", Calendar::noleap},
                                  {"all_leap", Calendar::all_leap},
                                  {"366_day", Calendar::all_leap},
                                  {"360_day", Calendar::days_360}};

std::string_view word_of(Calendar calendar) {
  return std::ranges::find(names, calendar, &CalendarName::calendar)->name;
}

std::string lower_case(std::string_view text) {
  std::string made;
  std::ranges::transform(text, std::back_inserter(made), lower);
  return made;
}

/// The pieces between white space.
std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  for (const std::string_view word : split(text, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

bool has_year_zero(Calendar calendar) {
  return calendar != Calendar::standard && calendar != Calendar::julian;
}

/// The days before year `y`, which begins in March, so that a leap day is its last one. Years are
/// astronomical: the year 0 precedes the year 1. Not for standard and days_360.
constexpr std::int64_t days_before_year(Calendar calendar, std::int64_t y) {
  switch (calendar) {
    case Calendar::noleap:
      return 365 * y;
    case Calendar::all_leap:
      return 366 * y;
    case Calendar::julian:
      return 365 * y + floor_div(y, 4);
    default:
      return 365 * y + floor_div(y, 4) - floor_div(y, 100) + floor_div(y, 400);
  }
}

/// The days from 1 March to the first day of a month; months are counted from March = 0.
constexpr std::int64_t days_before_month(std::int64_t month) {
  return (153 * month + 2) / 5;
}

/// The number of a day in a calendar with only one rule for leap years.
constexpr std::int64_t number_by_rule(Calendar calendar, const Date& date) {
  if (calendar == Calendar::days_360) {
    return (date.year * 12 + date.month - 1) * 30 + date.day - 1;
  }
  const std::int64_t year = date.year - (date.month < 3 ? 1 : 0);
  return days_before_year(calendar, year) + days_before_month((date.month + 9) % 12) + date.day - 1;
}

Date date_by_rule(Calendar calendar, std::int64_t number) {
  if (calendar == Calendar::days_360) {
    const std::int64_t month = floor_div(number, 30), year = floor_div(month, 12);
    return {year, static_cast<int>(month - 12 * year) + 1,
            static_cast<int>(number - 30 * month) + 1};
  }
  std::int64_t year = floor_div(number, 366);  // this year or an earlier one
  if (number < 0) year = floor_div(number, 365);
  while (days_before_year(calendar, year + 1) <= number) {
    year += std::max<std::int64_t>((number - days_before_year(calendar, year + 1)) / 366, 1);
  }
  const std::int64_t in_year = number - days_before_year(calendar, year);
  const std::int64_t month = (5 * in_year + 2) / 153;
  return {year + (month >= 10 ? 1 : 0), static_cast<int>((month + 2) % 12) + 1,
          static_cast<int>(in_year - days_before_month(month)) + 1};
}

/// The first Gregorian day of the standard calendar. The Julian numbers of days before it become
/// Gregorian ones by `julian_lead`.
constexpr Date first_gregorian{1582, 10, 15}, last_julian{1582, 10, 4};
constexpr std::int64_t gregorian_start =
    number_by_rule(Calendar::proleptic_gregorian, first_gregorian);
constexpr std::int64_t julian_lead =
    number_by_rule(Calendar::julian, last_julian) + 1 - gregorian_start;

bool is_before(const Date& a, const Date& b) {
  return std::tuple(a.year, a.month, a.day) < std::tuple(b.year, b.month, b.day);
}

/// For an astronomical year.
std::int64_t number_of(Calendar calendar, const Date& date) {
  if (calendar != Calendar::standard) return number_by_rule(calendar, date);
  return is_before(date, first_gregorian) ? number_by_rule(Calendar::julian, date) - julian_lead
                                          : number_by_rule(Calendar::proleptic_gregorian, date);
}

Date date_of(Calendar calendar, std::int64_t number) {
  if (calendar != Calendar::standard) return date_by_rule(calendar, number);
  return number < gregorian_start ? date_by_rule(Calendar::julian, number + julian_lead)
                                  : date_by_rule(Calendar::proleptic_gregorian, number);
}

/// Reads the reference of a unit from left to right.
class Reader {
 public:
  Reader(std::string_view text, const std::string& units) : rest_(text), units_(units) {}

  bool is_at_end() const { return rest_.empty(); }
  bool is_at_digit() const { return !rest_.empty() && std::isdigit(byte()) != 0; }
  bool skip(std::string_view text) {
    const bool found = rest_.starts_with(text);
    if (found) rest_.remove_prefix(text.size());
    return found;
  }
  /// Skips spaces, and returns whether there were some.
  bool skip_spaces() {
    bool found = false;
    while (skip(" ")) found = true;
    return found;
  }
  std::string_view digits(std::size_t max) {
    std::size_t count = 0;
    while (count < rest_.size() && count < max &&
           std::isdigit(static_cast<unsigned char>(rest_[count])) != 0) {
      ++count;
    }
    const std::string_view found = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return found;
  }
  std::int64_t number(std::size_t max_digits) {
    const std::string_view text = digits(max_digits);
    if (text.empty() || is_at_digit()) fail();
    return value_of(text);
  }
  static std::int64_t value_of(std::string_view digits) {
    std::int64_t value = 0;
    for (const char c : digits) value = value * 10 + (c - '0');
    return value;
  }

  [[noreturn]] void fail() const {
    throw UsageError(
        fmt::format("the units {} are no time since a date: write them as 'days since 1950-01-01'",
                    excerpt(units_)));
  }

 private:
  unsigned char byte() const { return static_cast<unsigned char>(rest_.front()); }

  std::string_view rest_;
  const std::string& units_;
};

Date read_date(Reader& reader) {
  Date date{0, 1, 1};
  const bool is_negative = reader.skip("-");
  if (!is_negative) reader.skip("+");
  date.year = reader.number(6) * (is_negative ? -1 : 1);
  if (reader.skip("-")) {
    date.month = static_cast<int>(reader.number(2));
    if (reader.skip("-")) date.day = static_cast<int>(reader.number(2));
  }
  return date;
}

/// The microseconds since midnight; 0 if there is no time.
std::int64_t read_time(Reader& reader) {
  if (!reader.is_at_digit()) return 0;
  const std::int64_t hours = reader.number(2);
  std::int64_t minutes = 0, seconds = 0, microseconds = 0;
  if (reader.skip(":")) {
    minutes = reader.number(2);
    if (reader.skip(":")) seconds = reader.number(2);
    if (reader.skip(".")) {
      std::string fraction(reader.digits(18));
      fraction.resize(6, '0');
      microseconds = Reader::value_of(fraction);
    }
  }
  if (hours > 23 || minutes > 59 || seconds > 59) reader.fail();
  return hours * hour + minutes * minute + seconds * second + microseconds;
}

/// The microseconds by which local time is ahead of UTC.
std::int64_t read_zone(Reader& reader) {
  for (const char* const utc : {"utc", "gmt", "z"}) {
    if (reader.skip(utc)) return 0;
  }
  const bool is_behind = reader.skip("-");
  if (!is_behind && !reader.skip("+")) return 0;
  const std::string_view digits = reader.digits(4);
  if (digits.empty()) reader.fail();
  const std::size_t of_hours = digits.size() <= 2 ? digits.size() : digits.size() - 2;
  std::int64_t hours = Reader::value_of(digits.substr(0, of_hours));
  std::int64_t minutes = Reader::value_of(digits.substr(of_hours));
  if (of_hours == digits.size() && reader.skip(":")) minutes = reader.number(2);
  if (hours > 23 || minutes > 59) reader.fail();
  return (hours * hour + minutes * minute) * (is_behind ? -1 : 1);
}

/// The length of a unit: `microseconds`, or a part of a microsecond.
struct UnitLength {
  std::int64_t microseconds;
  std::int64_t parts = 1;  ///< that are together as long
};

struct NamedUnit {
  UnitLength length;
  std::initializer_list<std::string_view> spellings;  ///< the first one is the one in messages
};

std::string known_units(std::span<const NamedUnit> units) {
  std::vector<std::string_view> known;
  for (const NamedUnit& unit : units) known.push_back(*unit.spellings.begin());
  return join_and(known);
}

/// The lengths are those of UDUNITS. Throws UsageError if there is no unit `name`.
UnitLength unit_named(std::string_view name, Calendar calendar, const std::string& units) {
  const NamedUnit known[] = {
      {{1, 1000}, {"nanoseconds", "nanosecond", "nanosec", "nanosecs", "nsec", "nsecs", "ns"}},
      {{1}, {"microseconds", "microsecond", "microsec", "microsecs"}},
      {{1000}, {"milliseconds", "millisecond", "millisec", "millisecs", "msec", "msecs", "ms"}},
      {{second}, {"seconds", "second", "sec", "secs", "s"}},
      {{minute}, {"minutes", "minute", "min", "mins"}},
      {{hour}, {"hours", "hour", "hr", "hrs", "h"}},
      {{day}, {"days", "day", "d"}},
      {{7 * day}, {"weeks", "week"}},
      {{365 * day}, {"common_years", "common_year"}}};
  for (const NamedUnit& unit : known) {
    if (std::ranges::find(unit.spellings, name) != unit.spellings.end()) return unit.length;
  }
  const bool is_month = name == "months" || name == "month";
  if (is_month && calendar == Calendar::days_360) return {30 * day};
  if (is_month || name == "years" || name == "year") {
    throw UsageError(
        fmt::format("the unit '{}' has no fixed length in the calendar {}: convert the coordinates "
                    "to days",
                    name, word_of(calendar)));
  }
  throw UsageError(
      fmt::format("the unit {} of the units {} is unknown: convert the coordinates to one of {}",
                  excerpt(name), excerpt(units), known_units(known)));
}

/// The date with an astronomical year; nothing if the calendar does not have it.
std::optional<Date> astronomical(const Date& date, Calendar calendar) {
  if (date.year == 0 && !has_year_zero(calendar)) return std::nullopt;
  Date made = date;
  if (date.year < 0 && !has_year_zero(calendar)) ++made.year;
  const bool is_possible = date.month >= 1 && date.month <= 12 && date.day >= 1 && date.day <= 31;
  const bool exists = is_possible && date_of(calendar, number_of(calendar, made)) == made;
  return exists ? std::optional(made) : std::nullopt;
}

/// Throws UsageError unless the calendar has the date, which becomes astronomical.
Date expect_date(const Date& date, Calendar calendar, const std::string& units) {
  if (const auto found = astronomical(date, calendar)) return *found;
  if (date.year == 0 && !has_year_zero(calendar)) {
    throw UsageError(
        fmt::format("the units {} begin in the year 0, which the calendar {} does not have: give "
                    "the coordinates another calendar, such as proleptic_gregorian",
                    excerpt(units), word_of(calendar)));
  }
  throw UsageError(
      fmt::format("the calendar {} has no date {}-{:02}-{:02}, at which the units {} begin",
                  word_of(calendar), date.year, date.month, date.day, excerpt(units)));
}

/// An instant whose microseconds may be any number.
Instant normalized(std::int64_t number_of_day, std::int64_t microseconds) {
  const std::int64_t days = floor_div(microseconds, day);
  return {number_of_day + days, microseconds - days * day};
}

}  // namespace

Calendar calendar_named(std::string_view name) {
  const std::string wanted = lower_case(trim(name));
  if (wanted.empty()) return Calendar::standard;
  const auto* const found = std::ranges::find(names, wanted, &CalendarName::name);
  if (found != std::end(names)) return found->calendar;
  std::vector<std::string_view> known;
  for (const CalendarName& each : names) known.push_back(each.name);
  throw UsageError(
      fmt::format("the calendar {} is unknown: known are {}", excerpt(name), join_and(known)));
}

Instant middle(const Instant& one, const Instant& two) {
  const std::int64_t days = one.day + two.day, half = floor_div(days, 2);
  const std::int64_t odd_day = (days - 2 * half) * day;
  return normalized(half, (odd_day + one.microsecond + two.microsecond) / 2);
}

bool count_the_same_days(Calendar one, Calendar two) {
  const auto is_real = [](Calendar each) {
    return each == Calendar::standard || each == Calendar::proleptic_gregorian;
  };
  return one == two || (is_real(one) && is_real(two));
}

TimeUnit::TimeUnit(const std::string& units, Calendar calendar)
    : units_(units), calendar_(calendar) {
  const std::string text = lower_case(trim(units));
  const std::string_view view = text;
  is_absolute_ = join(split_words(view), " ") == "day as %y%m%d.%f";
  if (is_absolute_) {
    unit_ = day;
    return;
  }
  const auto since = view.find(" since ");
  if (since == view.npos) Reader("", units_).fail();
  const std::string_view reference = trim(view.substr(since + 7));
  const UnitLength length = unit_named(trim(view.substr(0, since)), calendar, units_);
  unit_ = length.microseconds;
  parts_ = length.parts;
  read_reference(reference);
}

void TimeUnit::read_reference(std::string_view text) {
  Reader reader(text, units_);
  const Date date = read_date(reader);
  if (!reader.skip("t")) reader.skip_spaces();
  std::int64_t time = read_time(reader);
  reader.skip_spaces();
  time -= read_zone(reader);
  if (!reader.is_at_end()) reader.fail();
  start_ = normalized(number_of(calendar_, expect_date(date, calendar_, units_)), time);
}

bool TimeUnit::operator==(const TimeUnit& other) const {
  return calendar_ == other.calendar_ && is_absolute_ == other.is_absolute_ &&
         unit_ == other.unit_ && parts_ == other.parts_ && start_ == other.start_;
}

double TimeUnit::microseconds() const {
  return static_cast<double>(unit_) / static_cast<double>(parts_);
}

Instant TimeUnit::instant(double value) const {
  if (!std::isfinite(value)) {
    throw UsageError(
        fmt::format("{} is no time: select other coordinates, or correct them", value));
  }
  return is_absolute_ ? absolute(value) : elapsed(value);
}

Instant TimeUnit::elapsed(double value) const {
  constexpr double max = 0x1p62;  // microseconds
  const double units = value / static_cast<double>(parts_);
  if (std::abs(units) > max / static_cast<double>(unit_)) {
    throw UsageError(fmt::format("{} {} are too far away for a date: check the coordinates", value,
                                 excerpt(units_)));
  }
  const double whole = std::floor(units);
  return normalized(start_.day, start_.microsecond + static_cast<std::int64_t>(whole) * unit_ +
                                    std::llround((units - whole) * static_cast<double>(unit_)));
}

Instant TimeUnit::absolute(double value) const {
  constexpr double max = 1e10;  // beyond the year 10^6
  const double magnitude = std::min(std::abs(value), max), whole = std::floor(magnitude);
  const auto digits = static_cast<std::int64_t>(whole);
  const Date date{digits / 10'000 * (value < 0 ? -1 : 1), static_cast<int>(digits / 100 % 100),
                  static_cast<int>(digits % 100)};
  const auto found = astronomical(date, calendar_);
  if (!found || magnitude == max) {
    throw UsageError(
        fmt::format("{} is no date of the calendar {} in the units {}: check the coordinates",
                    value, word_of(calendar_), excerpt(units_)));
  }
  return normalized(number_of(calendar_, *found),
                    std::llround((magnitude - whole) * static_cast<double>(day)));
}

Date TimeUnit::date(const Instant& instant) const {
  Date date = date_of(calendar_, instant.day);
  if (date.year <= 0 && !has_year_zero(calendar_)) --date.year;
  return date;
}

}  // namespace shardstream
