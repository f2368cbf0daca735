#include "core/units.hpp"

#include <gtest/gtest.h>

#include <clocale>
#include <limits>
#include <locale>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "support/errors.hpp"

namespace shardstream {
namespace {

constexpr std::uint64_t max = std::numeric_limits<std::uint64_t>::max();

using test::error_of;
using test::names;

struct Good {
  std::string text;
  std::uint64_t value;
};

struct Bad {
  std::string text;
  std::vector<std::string> named;  ///< beside the text
};

TEST(ParseSize, ReadsEveryUnit) {
  for (const auto& [text, value] : std::vector<Good>{
           {"0", 0},
           {"4096", 4096},
           {"4096B", 4096},
           {"1KiB", 1024},
           {"64MiB", 67108864},
           {"3GiB", 3221225472},
           {"2TiB", 2199023255552},
           {"1PiB", 1125899906842624},
           {"1kB", 1000},
           {"1KB", 1000},
           {"64MB", 64000000},
           {"1.5GB", 1500000000},
           {"2TB", 2000000000000},
           {"1PB", 1000000000000000},
       }) {
    EXPECT_EQ(parse_size(text), value) << text;
  }
}

TEST(ParseSize, IsExactBeyondDoubles) {
  EXPECT_EQ(parse_size("9007199254740993"), 9007199254740993u);  // 2^53 + 1
  EXPECT_EQ(parse_size("18446744073709551615"), max);
  EXPECT_EQ(parse_size("9007199254740.993kB"), 9007199254740993u);
  EXPECT_EQ(parse_size("16383PiB"), 16383ull << 50);
}

TEST(ParseSize, TakesFractionsThatAreWholeBytes) {
  EXPECT_EQ(parse_size("0.1GB"), 100000000u);
  EXPECT_EQ(parse_size("0.5KiB"), 512u);
  EXPECT_EQ(parse_size(".25MiB"), 262144u);
  EXPECT_EQ(parse_size("1.50000000000000000000000000GB"), 1500000000u);
  EXPECT_EQ(parse_size("1e3"), 1000u);
  EXPECT_EQ(parse_size("1.5e3MB"), 1500000000u);
  EXPECT_EQ(parse_size("25e-1kB"), 2500u);
}

TEST(ParseSize, TakesWhiteSpace) {
  EXPECT_EQ(parse_size("64 MiB"), 67108864u);
  EXPECT_EQ(parse_size(" 64\tMiB "), 67108864u);
}

TEST(ParseSize, ErrorsNameTheTextAndTheReason) {
  for (const Bad& bad : std::vector<Bad>{
           {"64M", {"64MB", "64000000", "64MiB", "67108864"}},
           {"64 m", {"64MB", "64000000", "64MiB", "67108864"}},
           {"2K", {"2kB", "2000", "2KiB", "2048"}},
           {"1.5G", {"1.5GB", "1500000000", "1.5GiB", "1610612736"}},
           {"99999P", {"99999PB", "99999PiB"}},
           {"64mib", {"MiB"}},
           {"64Mib", {"MiB"}},
           {"64mb", {"MB"}},
           {"64Mi", {"MiB"}},
           {"64potato", {"unit", "'potato'"}},
           {"64EiB", {"unit", "'EiB'"}},
           {"0x40", {"unit", "'x40'"}},
           {"1.1GiB", {"whole"}},
           {"0.5B", {"whole"}},
           {"1e-3", {"whole"}},
           {"-1", {"negative"}},
           {" -64MiB", {"negative"}},
           {"18446744073709551616", {"64 bits"}},
           {"16384PiB", {"64 bits"}},
           {"1e20", {"64 bits"}},
           {"1e99999999999", {"64 bits"}},
           {"", {"size"}},
           {"MiB", {"size"}},
           {".", {"size"}},
           {"1.2.3MiB", {"size"}},
           {"nan", {"size"}},
           {"inf", {"size"}},
           {"+1", {"size"}},
           {"1,5GB", {"unit", "',5GB'"}},
           {"1 2MiB", {"unit", "'2MiB'"}},
       }) {
    const std::string message = error_of([&] { parse_size(bad.text); });
    EXPECT_TRUE(names(message, bad.named)) << bad.text;
    EXPECT_TRUE(names(message, "'" + bad.text + "'")) << bad.text;
  }
}

TEST(ParseCount, ReadsEveryForm) {
  for (const auto& [text, value] : std::vector<Good>{
           {"0", 0},
           {"42", 42},
           {" 42 ", 42},
           {"2^24", 16777216},
           {"2^31+3", 2147483651},
           {"2^31-1", 2147483647},
           {"2 ^ 31 + 3", 2147483651},
           {"10^9", 1000000000},
           {"2^0", 1},
           {"0^5", 0},
           {"1^18446744073709551615", 1},
           {"2^63", 9223372036854775808u},
           {"2^64-1", max},
           {"3^41-18446744073709551615", 18026252303461234788u},  // 3^41 alone would not fit
           {"1e9", 1000000000},
           {"1E9", 1000000000},
           {"1.5e6", 1500000},
           {"1e+3", 1000},
           {"100e-2", 1},
           {"4.0", 4},
           {"18446744073709551615", max},
       }) {
    EXPECT_EQ(parse_count(text), value) << text;
  }
}

TEST(ParseCount, ErrorsNameTheTextAndTheReason) {
  for (const Bad& bad : std::vector<Bad>{
           {"1.5", {"whole"}},
           {"1e-1", {"whole"}},
           {"1.23e1", {"whole"}},
           {"-1", {"negative"}},
           {"2^3-9", {"negative"}},
           {"2^64", {"64 bits"}},
           {"2^64+1", {"64 bits"}},
           {"2^70-1", {"64 bits"}},
           {"2^63+9223372036854775808", {"64 bits"}},
           {"2^99999999999999999999", {"64 bits"}},
           {"10^20", {"64 bits"}},
           {"1e20", {"64 bits"}},
           {"18446744073709551616", {"64 bits"}},
           {"", {"count"}},
           {"2^", {"count"}},
           {"^2", {"count"}},
           {"2^3^2", {"count"}},
           {"2^1.5", {"count"}},
           {"2^-1", {"count"}},
           {"2^3+", {"count"}},
           {"2^3+-1", {"count"}},
           {"1e9+1", {"count"}},
           {"5k", {"count"}},
           {"64MiB", {"count"}},
           {"nan", {"count"}},
           {"0x10", {"count"}},
           {"1 000", {"count"}},
           {"1,000", {"count"}},
       }) {
    const std::string message = error_of([&] { parse_count(bad.text); });
    EXPECT_TRUE(names(message, bad.named)) << bad.text;
    EXPECT_TRUE(names(message, "'" + bad.text + "'")) << bad.text;
  }
}

TEST(ParseNumber, ReadsEveryForm) {
  EXPECT_EQ(parse_number("0.5"), 0.5);
  EXPECT_EQ(parse_number("-2"), -2);
  EXPECT_EQ(parse_number(" 1e-3 "), 1e-3);
  EXPECT_EQ(parse_number("5%"), 0.05);
  EXPECT_EQ(parse_number("-0.5 %"), -0.005);
}

TEST(ParseNumber, ErrorsNameTheTextAndTheReason) {
  for (const char* text : {"", "x", "1x", "1,5", "nan", "inf", "--1", "1e", "0.5 GB", "%", "5%%"}) {
    EXPECT_THROW(parse_number(text), UsageError) << text;
  }
  EXPECT_THROW(parse_number("1e999"), UsageError);
}

TEST(ParseDuration, ReadsEveryUnit) {
  EXPECT_DOUBLE_EQ(parse_duration("250ms"), 0.25);
  EXPECT_DOUBLE_EQ(parse_duration("30s"), 30);
  EXPECT_DOUBLE_EQ(parse_duration("10min"), 600);
  EXPECT_DOUBLE_EQ(parse_duration("2h"), 7200);
  EXPECT_DOUBLE_EQ(parse_duration("1.5s"), 1.5);
  EXPECT_DOUBLE_EQ(parse_duration("1.5 h"), 5400);
  EXPECT_DOUBLE_EQ(parse_duration("1e-3s"), 1e-3);
  EXPECT_DOUBLE_EQ(parse_duration("0s"), 0);
}

TEST(ParseDuration, ErrorsNameTheTextAndTheReason) {
  for (const Bad& bad : std::vector<Bad>{
           {"30", {"30s", "30min"}},
           {"0", {"unit"}},
           {"10m", {"10min", "10ms"}},
           {"-1s", {"negative"}},
           {"1d", {"unit", "'d'"}},
           {"1S", {"unit", "'S'"}},
           {"1h30min", {"unit", "'h30min'"}},
           {"", {"duration"}},
           {"s", {"duration"}},
           {"nan", {"duration"}},
           {"infs", {"duration"}},
           {"1.2.3s", {"duration"}},
           {"1e999s", {"double"}},
           {"1e308h", {"double"}},
       }) {
    const std::string message = error_of([&] { parse_duration(bad.text); });
    EXPECT_TRUE(names(message, bad.named)) << bad.text;
    EXPECT_TRUE(names(message, "'" + bad.text + "'")) << bad.text;
  }
}

/// A locale with a decimal comma and grouping, which need not be installed.
struct CommaPunctuation : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(Units, IgnoreTheLocale) {
  const std::locale before = std::locale::global(std::locale(std::locale(), new CommaPunctuation));
  const char* const c_locale = std::setlocale(LC_ALL, "de_DE.UTF-8");  // null if it is missing
  EXPECT_EQ(parse_size("1.5GB"), 1500000000u);
  EXPECT_EQ(parse_count("1.5e6"), 1500000u);
  EXPECT_DOUBLE_EQ(parse_duration("1.5s"), 1.5);
  EXPECT_EQ(format_size(1536), "1.5 KiB");
  EXPECT_EQ(format_duration(1.5), "1.5 s");
  EXPECT_TRUE(names(error_of([] { parse_size("64M"); }), "64000000"));
  if (c_locale != nullptr) std::setlocale(LC_ALL, "C");
  std::locale::global(before);
}

TEST(FormatSize, TakesTheLargestUnit) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(1024), "1 KiB");
  EXPECT_EQ(format_size(1023 * 1024), "1023 KiB");
  EXPECT_EQ(format_size(64ull << 20), "64 MiB");
  EXPECT_EQ(format_size(3ull << 29), "1.5 GiB");
  EXPECT_EQ(format_size(1500000000), "1.397 GiB");
  EXPECT_EQ(format_size(5ull << 50), "5 PiB");
  EXPECT_EQ(format_size(max), "16 EiB");
}

TEST(FormatDuration, TakesTheUnitThatFits) {
  EXPECT_EQ(format_duration(0), "0 s");
  EXPECT_EQ(format_duration(2.5e-9), "2.5 ns");
  EXPECT_EQ(format_duration(12.34e-6), "12.3 us");
  EXPECT_EQ(format_duration(0.01234), "12.3 ms");
  EXPECT_EQ(format_duration(4.561), "4.56 s");
  EXPECT_EQ(format_duration(59.94), "59.9 s");
  EXPECT_EQ(format_duration(200), "3 min 20 s");
  EXPECT_EQ(format_duration(7500), "2 h 5 min");
  EXPECT_EQ(format_duration(360000), "100 h 0 min");
  EXPECT_EQ(format_duration(-4.561), "-4.56 s");
}

TEST(FormatPercent, HasTwoDigitsAndNoExponent) {
  EXPECT_EQ(format_percent(0), "0 %");
  EXPECT_EQ(format_percent(0.00514), "0.51 %");
  EXPECT_EQ(format_percent(0.01), "1 %");
  EXPECT_EQ(format_percent(0.999), "100 %");
  EXPECT_EQ(format_percent(1.7312), "170 %");
  EXPECT_EQ(format_percent(-12345), "-1200000 %");
  EXPECT_EQ(format_change(0.0123), "+1.2 %");
  EXPECT_EQ(format_change(-0.3), "-30 %");
}

TEST(FormatDuration, CarriesIntoTheNextUnit) {
  EXPECT_EQ(format_duration(0.9996e-3), "1 ms");
  EXPECT_EQ(format_duration(0.9996), "1 s");
  EXPECT_EQ(format_duration(59.96), "1 min 0 s");
  EXPECT_EQ(format_duration(119.6), "2 min 0 s");
  EXPECT_EQ(format_duration(3599.6), "1 h 0 min");
  EXPECT_EQ(format_duration(7199.9), "2 h 0 min");
}

}  // namespace
}  // namespace shardstream
