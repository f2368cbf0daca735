// Dates of time coordinates in the calendars of the CF conventions.
#include "core/calendar.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ostream>
#include <string>

#include "support/errors.hpp"

namespace shardstream {

void PrintTo(const Date& date, std::ostream* out) {
  *out << date.year << '-' << date.month << '-' << date.day;
}

namespace {

using test::error_of;
using test::names;

Date date(const std::string& units, const std::string& calendar, double value) {
  return TimeUnit(units, calendar_named(calendar)).date(value);
}

/// The dates were computed with cftime 1.6.2.
TEST(Calendars, GiveTheDatesOfCftime) {
  const struct {
    const char *units, *calendar;
    double value;
    Date expected;
  } cases[] = {
      {"days since 1950-01-01", "standard", 0, {1950, 1, 1}},
      {"days since 1950-01-01", "standard", 30.999, {1950, 1, 31}},
      {"days since 1950-01-01", "standard", 31, {1950, 2, 1}},
      {"days since 1950-01-01", "standard", 58, {1950, 2, 28}},
      {"days since 1950-01-01", "standard", 59, {1950, 3, 1}},
      {"days since 1950-01-01", "standard", 365, {1951, 1, 1}},
      {"days since 1950-01-01", "standard", 18262, {2000, 1, 1}},
      {"hours since 1900-01-01 00:00:00.0", "gregorian", 1043135.5, {2018, 12, 31}},
      {"hours since 1900-01-01 00:00:00.0", "gregorian", 1043136, {2019, 1, 1}},
      {"hours since 1900-01-01 00:00:00.0", "gregorian", -1, {1899, 12, 31}},
      {"days since 1582-10-04", "standard", 0, {1582, 10, 4}},
      {"days since 1582-10-04", "standard", 0.5, {1582, 10, 4}},
      {"days since 1582-10-04", "standard", 1, {1582, 10, 15}},
      {"days since 1582-10-04", "standard", 2, {1582, 10, 16}},
      {"days since 1582-10-04", "standard", -1, {1582, 10, 3}},
      {"days since 0001-01-01", "standard", 0, {1, 1, 1}},
      {"days since 0001-01-01", "standard", 577736, {1582, 10, 4}},
      {"days since 0001-01-01", "standard", 577737, {1582, 10, 15}},
      {"days since 0001-01-01", "standard", 730121, {2000, 1, 1}},
      {"days since 0001-01-01", "standard", -1, {-1, 12, 31}},
      {"days since 0001-01-01", "standard", -366, {-1, 1, 1}},
      {"days since 0001-01-01", "proleptic_gregorian", 577735, {1582, 10, 15}},
      {"days since 0001-01-01", "proleptic_gregorian", 730119, {2000, 1, 1}},
      {"days since 0001-01-01", "proleptic_gregorian", -1, {0, 12, 31}},
      {"days since 0001-01-01", "proleptic_gregorian", -366, {0, 1, 1}},
      {"days since 0001-01-01", "proleptic_gregorian", -146097, {-399, 1, 1}},
      {"days since 0001-01-01", "julian", 577737, {1582, 10, 5}},
      {"days since 0001-01-01", "julian", 730121, {1999, 12, 19}},
      {"days since 0001-01-01", "julian", -1, {-1, 12, 31}},
      {"days since 2000-02-28", "noleap", 0, {2000, 2, 28}},
      {"days since 2000-02-28", "noleap", 1, {2000, 3, 1}},
      {"days since 2000-02-28", "noleap", 306, {2000, 12, 31}},
      {"days since 2000-02-28", "noleap", 307, {2001, 1, 1}},
      {"days since 2000-02-28", "noleap", -1000, {1997, 6, 3}},
      {"days since 2001-02-28", "all_leap", 1, {2001, 2, 29}},
      {"days since 2001-02-28", "all_leap", 2, {2001, 3, 1}},
      {"days since 2001-02-28", "all_leap", 307, {2001, 12, 31}},
      {"days since 2001-02-28", "all_leap", 308, {2002, 1, 1}},
      {"days since 2001-02-28", "all_leap", -1000, {1998, 6, 5}},
      {"days since 2000-02-30", "360_day", 0, {2000, 2, 30}},
      {"days since 2000-02-30", "360_day", 1, {2000, 3, 1}},
      {"days since 2000-02-30", "360_day", 10, {2000, 3, 10}},
      {"days since 2000-02-30", "360_day", 300, {2000, 12, 30}},
      {"days since 2000-02-30", "360_day", -50, {2000, 1, 10}},
      {"months since 2000-01-01", "360_day", 0, {2000, 1, 1}},
      {"months since 2000-01-01", "360_day", 1.5, {2000, 2, 16}},
      {"months since 2000-01-01", "360_day", 11, {2000, 12, 1}},
      {"months since 2000-01-01", "360_day", 12, {2001, 1, 1}},
      {"months since 2000-01-01", "360_day", -1, {1999, 12, 1}},
      {"minutes since 1999-12-31 23:59", "proleptic_gregorian", 0, {1999, 12, 31}},
      {"minutes since 1999-12-31 23:59", "proleptic_gregorian", 1, {2000, 1, 1}},
      {"minutes since 1999-12-31 23:59", "proleptic_gregorian", 86400, {2000, 2, 29}},
      {"seconds since 1970-01-01T00:00:00Z", "standard", 951782399, {2000, 2, 28}},
      {"seconds since 1970-01-01T00:00:00Z", "standard", 951782400, {2000, 2, 29}},
      {"seconds since 1970-01-01T00:00:00Z", "standard", 951868800, {2000, 3, 1}},
      {"seconds since 1970-01-01T00:00:00Z", "standard", -1, {1969, 12, 31}},
      {"seconds since 1970-01-01T00:00:00Z", "standard", 100000000000.0, {5138, 11, 16}},
      {"days since 1970-01-01 12:00 +13:30", "standard", 0, {1969, 12, 31}},
      {"days since 1970-01-01 12:00 +13:30", "standard", 31, {1970, 1, 31}},
      {"seconds since 1992-10-08 15:15:42.5 -06:00", "standard", 9857, {1992, 10, 8}},
      {"seconds since 1992-10-08 15:15:42.5 -06:00", "standard", 9858, {1992, 10, 9}},
      {"days since 2000-01-01", "standard", 31.0, {2000, 2, 1}},
      {"days since 2000-01-01", "standard", 30.9999999999999, {2000, 2, 1}},
  };
  for (const auto& each : cases) {
    EXPECT_EQ(date(each.units, each.calendar, each.value), each.expected)
        << each.value << ' ' << each.units << ", " << each.calendar;
  }
}

TEST(Calendars, KnowTheUnitsOfUdunits) {
  EXPECT_EQ(date("nanoseconds since 2001-01-01", "standard", 31 * 86400e9), (Date{2001, 2, 1}));
  EXPECT_EQ(date("ns since 2001-01-01", "standard", 31 * 86400e9 - 1e6), (Date{2001, 1, 31}));
  EXPECT_EQ(date("nanoseconds since 1970-01-01", "standard", 951782400e9), (Date{2000, 2, 29}));
  EXPECT_EQ(date("weeks since 2001-01-01", "standard", 4.25), (Date{2001, 1, 30}));
  EXPECT_EQ(date("week since 2001-01-01", "360_day", -1), (Date{2000, 12, 24}));
  EXPECT_EQ(date("common_years since 2001-01-01", "noleap", 1.5), (Date{2002, 7, 2}));
  EXPECT_EQ(date("common_year since 2000-01-01", "standard", 1), (Date{2000, 12, 31}));
}

TEST(Calendars, ReadTheAbsoluteTimeOfCdo) {
  constexpr auto units = "day as %Y%m%d.%f";
  EXPECT_EQ(date(units, "proleptic_gregorian", 19910115.5), (Date{1991, 1, 15}));
  EXPECT_EQ(date(units, "standard", 15821015), (Date{1582, 10, 15}));
  EXPECT_EQ(date(units, "360_day", 20000230.25), (Date{2000, 2, 30}));
  EXPECT_EQ(date(units, "standard", 10101), (Date{1, 1, 1}));
  EXPECT_EQ(date(units, "standard", -11231), (Date{-1, 12, 31}));
  EXPECT_EQ(date(" Day  as %Y%m%d.%f ", "", 19991231.99999999), (Date{1999, 12, 31}));
  for (const double value : {19910229.0, 19911301.0, 15821010.0, 101.0, 1e300, -1e12}) {
    EXPECT_TRUE(names(error_of([&] { date(units, "standard", value); }), fmt::format("{}", value),
                      "%Y%m%d.%f", "standard"))
        << value;
  }
}

TEST(Calendars, HaveAMiddleBetweenInstants) {
  const TimeUnit absolute("day as %Y%m%d.%f", Calendar::standard);
  const TimeUnit days("days since 2001-01-01", Calendar::standard);
  const auto middle_of = [](const TimeUnit& unit, double one, double two) {
    return middle(unit.instant(one), unit.instant(two));
  };
  EXPECT_EQ(middle_of(absolute, 19910201, 19910301), absolute.instant(19910215));
  EXPECT_EQ(middle_of(days, 0, 31), days.instant(15.5));
  EXPECT_EQ(middle_of(days, -3.5, -3), days.instant(-3.25));
  EXPECT_EQ(middle_of(days, -800'000.75, 800'000), days.instant(-0.375));
  EXPECT_EQ(days.date(middle_of(days, 0, 31)), (Date{2001, 1, 16}));
}

TEST(Calendars, CompareUnitsByTheirMeaning) {
  const TimeUnit one("days since 2001-01-01", Calendar::standard);
  EXPECT_EQ(one, TimeUnit("day since 2001-1-1 00:00:00 UTC", Calendar::standard));
  EXPECT_EQ(one, TimeUnit("d since 2001-1-1 01:00 +1", Calendar::standard));
  EXPECT_NE(one, TimeUnit("days since 2001-01-02", Calendar::standard));
  EXPECT_NE(one, TimeUnit("hours since 2001-01-01", Calendar::standard));
  EXPECT_NE(one, TimeUnit("days since 2001-01-01", Calendar::noleap));
  EXPECT_NE(TimeUnit("nanoseconds since 2001-01-01", Calendar::standard),
            TimeUnit("microseconds since 2001-01-01", Calendar::standard));
  EXPECT_EQ(one.instant(31), TimeUnit("weeks since 2001-02-01", Calendar::standard).instant(0));
  EXPECT_TRUE(count_the_same_days(Calendar::standard, Calendar::proleptic_gregorian));
  EXPECT_FALSE(count_the_same_days(Calendar::standard, Calendar::noleap));
}

TEST(Calendars, HaveEachDayOnce) {
  for (const char* const name :
       {"standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day"}) {
    const TimeUnit unit("days since 1999-12-30", calendar_named(name));
    Date before = unit.date(-800'001);
    for (int day = -800'000; day < 800'000; ++day) {
      const Date next = unit.date(day);
      const bool same_month = next.year == before.year && next.month == before.month;
      const bool first_of_next = next.day == 1 && next.month == before.month % 12 + 1;
      const bool skips = next.year == 1582 && next.month == 10 && next.day == 15;
      ASSERT_TRUE((same_month && next.day == before.day + 1) || first_of_next || skips)
          << name << ' ' << day;
      const bool is_new_year = next.month == 1 && next.day == 1;
      const bool skips_zero = is_new_year && before.year == -1 && next.year == 1;
      ASSERT_TRUE(next.year == before.year + (is_new_year ? 1 : 0) || skips_zero)
          << name << ' ' << day;
      before = next;
    }
  }
}

TEST(Calendars, ReadUnitsInAnyUsualForm) {
  for (const char* const units :
       {"Days Since 1950-01-01", "d since 1950", "day since 1950-1", "  days  since  1950-1-1  ",
        "days since 1950-01-01T00:00:00Z", "days since 1950-01-01 00", "days since +1950-01-01 0:0",
        "days since 1950-01-01 00:00:00.000 UTC", "days since 1950-01-01 gmt",
        "days since 1950-01-01 01:00 +1", "days since 1950-01-01 01:30 +0130",
        "days since 1949-12-31 18:00:00 -6:00", "days since 1950-01-01 +0"}) {
    EXPECT_EQ(date(units, "Standard", 31), (Date{1950, 2, 1})) << units;
    EXPECT_EQ(date(units, "", 31 - 1e-9), (Date{1950, 1, 31})) << units;
  }
}

TEST(Calendars, RejectUnitsThatAreNone) {
  const auto complaint = [](const std::string& units, const char* calendar = "standard") {
    return error_of([&] { date(units, calendar, 0); });
  };
  for (const char* const units :
       {"K", "", "days", "since", "days since", "days since yesterday",
        "fortnights since 1950-01-01", "days since 1950-01-01 25:00", "days since 1950-01-01 00:60",
        "days since 1950-01-01 noon", "days since 1950-01-01 +", "days since 1950-001-01",
        "days since 19500101", "days since 99999999999999999999-1-1", "days before 1950-01-01",
        "days since 1950-01-01 00:00:00 +01:75"}) {
    EXPECT_TRUE(names(complaint(units), units)) << units;
  }
  EXPECT_TRUE(names(complaint("fortnights since 1950-01-01"), "'fortnights'", "weeks"));
  for (const char* const units : {"months since 1950-01-01", "years since 1950-01-01"}) {
    const std::string unit = std::string(units).substr(0, std::string(units).find(' '));
    EXPECT_TRUE(names(complaint(units, "noleap"), "noleap", unit));
  }
  EXPECT_TRUE(names(complaint("days since 0000-01-01"), "0", "standard"));
  EXPECT_EQ(complaint("days since 0000-01-01 00:00 x", "noleap").find("year 0"), std::string::npos);
  EXPECT_EQ(date("days since 0000-01-01", "noleap", 0), (Date{0, 1, 1}));
  EXPECT_TRUE(names(complaint("days since 1582-10-10"), "1582-10-10", "standard"));
  EXPECT_TRUE(names(complaint("days since 1950-02-29", "noleap"), "1950-02-29", "noleap"));
  EXPECT_TRUE(names(complaint("days since 1950-02-31", "360_day"), "1950-02-31", "360_day"));
  EXPECT_TRUE(names(complaint("days since 1950-13-01"), "1950-13-01"));
  EXPECT_TRUE(names(complaint("days since 1950-00-01"), "1950-00-01"));
}

TEST(Calendars, RejectOtherCalendars) {
  EXPECT_TRUE(names(error_of([] { calendar_named("mars"); }), "mars", "proleptic_gregorian"));
}

TEST(Calendars, RejectValuesThatAreNoTime) {
  for (const double value :
       {std::nan(""), std::numeric_limits<double>::infinity(), 1e300, -1e300, 1e15}) {
    EXPECT_TRUE(names(error_of([&] { date("days since 1950-01-01", "", value); }),
                      fmt::format("{}", value)));
  }
  EXPECT_EQ(date("days since 1950-01-01", "360_day", 5e7).year, 1950 + 138'888);
}

}  // namespace
}  // namespace shardstream
