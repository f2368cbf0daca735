#include "core/units.hpp"

#include <gtest/gtest.h>

#include <clocale>
#include <limits>
#include <locale>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace shardstream {
namespace {

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

/// The message of the UsageError that `call` throws.
template <class Call>
std::string usage_error(const Call& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "(no UsageError)";
}

testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != text.npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is not in: " << text;
}

struct Good {
  std::string text;
  std::uint64_t value;
};

struct Bad {
  std::string text;
  std::string why;  ///< a part of the message
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
  EXPECT_EQ(parse_size("18446744073709551615"), most);
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

TEST(ParseSize, RefusesWithTheReason) {
  for (const Bad& bad : std::vector<Bad>{
           {"64M", "write 64MB (64000000 bytes) or 64MiB (67108864 bytes)"},
           {"64 m", "write 64MB (64000000 bytes) or 64MiB (67108864 bytes)"},
           {"2K", "write 2kB (2000 bytes) or 2KiB (2048 bytes)"},
           {"1.5G", "write 1.5GB (1500000000 bytes) or 1.5GiB (1610612736 bytes)"},
           {"99999P", "write 99999PB or 99999PiB"},
           {"64mib", "did you mean MiB?"},
           {"64Mib", "did you mean MiB?"},
           {"64mb", "did you mean MB?"},
           {"64Mi", "did you mean MiB?"},
           {"64potato", "unknown unit 'potato'"},
           {"64EiB", "unknown unit 'EiB'"},
           {"0x40", "unknown unit 'x40'"},
           {"1.1GiB", "not a whole number of bytes"},
           {"0.5B", "not a whole number of bytes"},
           {"1e-3", "not a whole number of bytes"},
           {"-1", "is negative"},
           {" -64MiB", "is negative"},
           {"18446744073709551616", "does not fit in 64 bits"},
           {"16384PiB", "does not fit in 64 bits"},
           {"1e20", "does not fit in 64 bits"},
           {"1e99999999999", "does not fit in 64 bits"},
           {"", "is not a size"},
           {"MiB", "is not a size"},
           {".", "is not a size"},
           {"1.2.3MiB", "is not a size"},
           {"nan", "is not a size"},
           {"inf", "is not a size"},
           {"+1", "is not a size"},
           {"1,5GB", "unknown unit ',5GB'"},
           {"1 2MiB", "unknown unit '2MiB'"},
       }) {
    const std::string message = usage_error([&] { parse_size(bad.text); });
    EXPECT_TRUE(contains(message, bad.why)) << bad.text;
    EXPECT_TRUE(contains(message, "'" + bad.text + "'")) << bad.text;
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
           {"2^64-1", most},
           {"3^41-18446744073709551615", 18026252303461234788u},  // 3^41 alone would not fit
           {"1e9", 1000000000},
           {"1E9", 1000000000},
           {"1.5e6", 1500000},
           {"1e+3", 1000},
           {"100e-2", 1},
           {"4.0", 4},
           {"18446744073709551615", most},
       }) {
    EXPECT_EQ(parse_count(text), value) << text;
  }
}

TEST(ParseCount, RefusesWithTheReason) {
  for (const Bad& bad : std::vector<Bad>{
           {"1.5", "is not a whole number"},
           {"1e-1", "is not a whole number"},
           {"1.23e1", "is not a whole number"},
           {"-1", "is negative"},
           {"2^3-9", "is negative"},
           {"2^64", "does not fit"},
           {"2^64+1", "does not fit"},
           {"2^70-1", "does not fit"},
           {"2^63+9223372036854775808", "does not fit"},
           {"2^99999999999999999999", "does not fit"},
           {"10^20", "does not fit"},
           {"1e20", "does not fit"},
           {"18446744073709551616", "does not fit"},
           {"", "is not a count"},
           {"2^", "is not a count"},
           {"^2", "is not a count"},
           {"2^3^2", "is not a count"},
           {"2^1.5", "is not a count"},
           {"2^-1", "is not a count"},
           {"2^3+", "is not a count"},
           {"2^3+-1", "is not a count"},
           {"1e9+1", "is not a count"},
           {"5k", "is not a count"},
           {"64MiB", "is not a count"},
           {"nan", "is not a count"},
           {"0x10", "is not a count"},
           {"1 000", "is not a count"},
           {"1,000", "is not a count"},
       }) {
    const std::string message = usage_error([&] { parse_count(bad.text); });
    EXPECT_TRUE(contains(message, bad.why)) << bad.text;
    EXPECT_TRUE(contains(message, "'" + bad.text + "'")) << bad.text;
  }
}

TEST(ParseNumber, ReadsEveryForm) {
  EXPECT_EQ(parse_number("0.5"), 0.5);
  EXPECT_EQ(parse_number("-2"), -2);
  EXPECT_EQ(parse_number(" 1e-3 "), 1e-3);
}

TEST(ParseNumber, RefusesWithTheReason) {
  for (const char* text : {"", "x", "1x", "1,5", "nan", "inf", "--1", "1e", "0.5 GB"}) {
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

TEST(ParseDuration, RefusesWithTheReason) {
  for (const Bad& bad : std::vector<Bad>{
           {"30", "write 30s or 30min"},
           {"0", "has no unit"},
           {"10m", "write 10min or 10ms"},
           {"-1s", "is negative"},
           {"1d", "unknown unit 'd'"},
           {"1S", "unknown unit 'S'"},
           {"1h30min", "unknown unit 'h30min'"},
           {"", "is not a duration"},
           {"s", "is not a duration"},
           {"nan", "is not a duration"},
           {"infs", "is not a duration"},
           {"1.2.3s", "is not a duration"},
           {"1e999s", "no duration that a double holds"},
           {"1e308h", "no duration that a double holds"},
       }) {
    const std::string message = usage_error([&] { parse_duration(bad.text); });
    EXPECT_TRUE(contains(message, bad.why)) << bad.text;
    EXPECT_TRUE(contains(message, "'" + bad.text + "'")) << bad.text;
  }
}

/// A decimal comma and grouping, as a German user's locale has them; no such locale need exist.
struct CommaPunctuation : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(Units, IgnoreTheLocale) {
  const std::locale before = std::locale::global(std::locale(std::locale(), new CommaPunctuation));
  const char* const c_locale = std::setlocale(LC_ALL, "de_DE.UTF-8");  // null where it is missing
  EXPECT_EQ(parse_size("1.5GB"), 1500000000u);
  EXPECT_EQ(parse_count("1.5e6"), 1500000u);
  EXPECT_DOUBLE_EQ(parse_duration("1.5s"), 1.5);
  EXPECT_EQ(format_size(1536), "1.5 KiB");
  EXPECT_EQ(format_duration(1.5), "1.5 s");
  EXPECT_TRUE(contains(usage_error([] { parse_size("64M"); }), "(64000000 bytes)"));
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
  EXPECT_EQ(format_size(most), "16 EiB");
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

TEST(FormatDuration, CarriesIntoTheNextUnit) {
  EXPECT_EQ(format_duration(0.9996e-3), "1 ms");
  EXPECT_EQ(format_duration(0.9996), "1 s");
  EXPECT_EQ(format_duration(59.96), "1 min 0 s");
  EXPECT_EQ(format_duration(119.6), "2 min 0 s");
  EXPECT_EQ(format_duration(3599.6), "1 h 0 min");
  EXPECT_EQ(format_duration(7199.9), "2 h 0 min");
}

TEST(Nearest, FindsASlip) {
  const std::vector<std::string_view> words = {"sum", "min", "max", "variance", "host"};
  EXPECT_EQ(nearest("sum", words), "sum");
  EXPECT_EQ(nearest("smu", words), "sum");  // two neighbours swapped are one edit
  EXPECT_EQ(nearest("mx", words), "max");
  EXPECT_EQ(nearest("varience", words), "variance");
  EXPECT_EQ(nearest("hots", words), "host");
  EXPECT_EQ(nearest("MAX", words), "max");
}

TEST(Nearest, FindsNothingInAnotherWord) {
  const std::vector<std::string_view> words = {"sum", "min", "max"};
  EXPECT_EQ(nearest("cuda", words), "");
  EXPECT_EQ(nearest("x", words), "");
  EXPECT_EQ(nearest("", words), "");
  EXPECT_EQ(nearest("sum", {}), "");
}

TEST(Nearest, TakesTheNearer) {
  EXPECT_EQ(nearest("reduce.opps", {"reduce.op", "reduce.ops"}), "reduce.ops");
}

}  // namespace
}  // namespace shardstream
