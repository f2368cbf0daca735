// Sizes and counts are read as exact decimals, never by way of a double: 2^53 is a small file.
// std::from_chars and plain character tests keep every reader independent of the locale.
#include "core/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream {
namespace {

constexpr std::uint64_t max_count = std::numeric_limits<std::uint64_t>::max();
constexpr std::string_view no_fit = "does not fit in 64 bits: the maximum is 18446744073709551615";
constexpr std::string_view no_size = "is not a size: write for example 64MiB, 1.5GB or 4096";
constexpr std::string_view no_count = "is not a count: write for example 42, 2^24 or 1e9";
constexpr std::string_view no_duration =
    "is not a duration: write for example 250ms, 30s, 10min or 2h";

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::uint64_t kilo = 1000;
constexpr std::array size_units = {
    Unit{"B", 1},
    Unit{"KiB", 1ull << 10},
    Unit{"MiB", 1ull << 20},
    Unit{"GiB", 1ull << 30},
    Unit{"TiB", 1ull << 40},
    Unit{"PiB", 1ull << 50},
    Unit{"kB", kilo},
    Unit{"KB", kilo},
    Unit{"MB", kilo* kilo},
    Unit{"GB", kilo* kilo* kilo},
    Unit{"TB", kilo* kilo* kilo* kilo},
    Unit{"PB", kilo* kilo* kilo* kilo* kilo},
};

[[noreturn]] void fail(std::string_view text, std::string_view why) {
  throw UsageError(fmt::format("{} {}", excerpt(text), why));
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// "1.5e3 GB" as "1.5e3" and "GB". An 'e' is part of the number only if a digit follows it.
struct Quantity {
  std::string_view number;
  std::string_view unit;
};

Quantity split_quantity(std::string_view text) {
  text = trim(text);
  std::size_t end = 0;
  while (end < text.size() && (is_digit(text[end]) || text[end] == '.')) ++end;
  if (end > 0 && end < text.size() && lower(text[end]) == 'e') {
    std::size_t exponent = end + 1;
    if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
    if (exponent < text.size() && is_digit(text[exponent])) {
      end = exponent;
      while (end < text.size() && is_digit(text[end])) ++end;
    }
  }
  return {text.substr(0, end), trim(text.substr(end))};
}

/// digits × 10^exponent, without rounding.
struct Decimal {
  std::uint64_t digits = 0;
  int exponent = 0;
};

/// Reads Quantity::number without rounding. `text` and `malformed` are for the message.
Decimal read_decimal(std::string_view number, std::string_view text, std::string_view malformed) {
  const auto e = number.find_first_of("eE");
  const std::string_view mantissa = number.substr(0, e);
  const auto point = mantissa.find('.');
  const std::string_view whole = mantissa.substr(0, point);
  std::string_view fraction = point == mantissa.npos ? "" : mantissa.substr(point + 1);
  if (fraction.find('.') != fraction.npos || whole.size() + fraction.size() == 0) {
    fail(text, malformed);
  }
  while (fraction.ends_with('0')) fraction.remove_suffix(1);

  Decimal value;
  if (e != number.npos) {
    std::string_view exponent = number.substr(e + 1);
    if (exponent.starts_with('+')) exponent.remove_prefix(1);
    std::from_chars(exponent.data(), exponent.data() + exponent.size(), value.exponent);
    if (exponent.size() > 4) fail(text, no_fit);  // beyond any use, and near the limits of int
  }
  for (const std::string_view part : {whole, fraction}) {
    for (const char c : part) {
      if (__builtin_mul_overflow(value.digits, 10u, &value.digits) ||
          __builtin_add_overflow(value.digits, static_cast<unsigned>(c - '0'), &value.digits)) {
        fail(text, no_fit);
      }
    }
  }
  value.exponent -= static_cast<int>(fraction.size());
  return value;
}

enum class Fault { none, fraction, overflow };

struct Whole {
  std::uint64_t value = 0;
  Fault fault = Fault::none;
};

/// value × factor as a whole number. A negative power of ten is divided out prime by prime, so that
/// nothing is rounded: 0.1GB is 100000000, and 0.1GiB is not a whole number of bytes.
Whole times(Decimal value, std::uint64_t factor) {
  if (value.digits == 0) return {};
  for (; value.exponent < 0; ++value.exponent) {
    for (const std::uint64_t prime : {2, 5}) {
      if (value.digits % prime == 0) {
        value.digits /= prime;
      } else if (factor % prime == 0) {
        factor /= prime;
      } else {
        return {0, Fault::fraction};
      }
    }
  }
  std::uint64_t product = 0;
  bool overflow = __builtin_mul_overflow(value.digits, factor, &product);
  for (; !overflow && value.exponent > 0; --value.exponent) {
    overflow = __builtin_mul_overflow(product, 10u, &product);
  }
  if (overflow) return {0, Fault::overflow};
  return {product, Fault::none};
}

/// Rejects "64M" and names both possible sizes, with B and with iB.
[[noreturn]] void fail_ambiguous(std::string_view text, const Quantity& quantity,
                                 const Decimal& value) {
  const auto reading = [&](const std::string& name) {
    const auto* unit = std::find_if(size_units.begin(), size_units.end(),
                                    [&](const Unit& each) { return each.name == name; });
    const Whole bytes = times(value, unit->factor);
    return bytes.fault == Fault::none
               ? fmt::format("{}{} ({} bytes)", quantity.number, name, bytes.value)
               : fmt::format("{}{}", quantity.number, name);
  };
  const char letter = static_cast<char>(lower(quantity.unit[0]) - 'a' + 'A');
  const std::string decimal = letter == 'K' ? "kB" : fmt::format("{}B", letter);
  const std::string binary = fmt::format("{}iB", letter);
  fail(text, fmt::format("is ambiguous: write {} or {}", reading(decimal), reading(binary)));
}

std::uint64_t size_factor(std::string_view text, const Quantity& quantity, const Decimal& value) {
  if (quantity.unit.empty()) return 1;
  std::vector<std::string_view> names;
  for (const Unit& unit : size_units) {
    if (unit.name == quantity.unit) return unit.factor;
    names.push_back(unit.name);
  }
  constexpr std::string_view prefixes = "kKmMgGtTpP";
  if (quantity.unit.size() == 1 && prefixes.find(quantity.unit[0]) != prefixes.npos) {
    fail_ambiguous(text, quantity, value);
  }
  fail(text, fmt::format("has the unknown unit {}{}: write {}", excerpt(quantity.unit),
                         did_you_mean(nearest(quantity.unit, names)), join(names, ", ")));
}

/// Reads digits and nothing else.
std::uint64_t read_digits(std::string_view digits, std::string_view text) {
  digits = trim(digits);
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error == std::errc::result_out_of_range) fail(text, no_fit);
  if (error != std::errc() || stop != end) fail(text, no_count);
  return value;
}

/// "2^24", "2^31+3", "2^64-1". 128 bits hold every intermediate result.
std::uint64_t read_power(std::string_view text) {
  __extension__ using Wide = unsigned __int128;
  const auto caret = text.find('^');
  const std::string_view tail = text.substr(caret + 1);
  const auto sign = tail.find_first_of("+-");
  const std::uint64_t base = read_digits(text.substr(0, caret), text);
  std::uint64_t exponent = read_digits(tail.substr(0, sign), text);
  if (base < 2) exponent = std::min<std::uint64_t>(exponent, 1);  // same value, no long loop

  Wide value = 1;
  for (; exponent > 0; --exponent) {
    if (value > max_count) fail(text, no_fit);  // no offset could make the next power fit
    value *= base;
  }
  if (sign != tail.npos) {
    const std::uint64_t offset = read_digits(tail.substr(sign + 1), text);
    if (tail[sign] == '-' && offset > value) fail(text, "is negative");
    value = tail[sign] == '+' ? value + offset : value - offset;
  }
  if (value > max_count) fail(text, no_fit);
  return static_cast<std::uint64_t>(value);
}

}  // namespace

std::uint64_t parse_size(std::string_view text) {
  if (trim(text).starts_with('-')) fail(text, "is negative");
  const Quantity quantity = split_quantity(text);
  const Decimal value = read_decimal(quantity.number, text, no_size);
  const Whole bytes = times(value, size_factor(text, quantity, value));
  if (bytes.fault == Fault::overflow) fail(text, no_fit);
  if (bytes.fault == Fault::fraction) {
    fail(text, "is not a whole number of bytes: write it in a smaller unit");
  }
  return bytes.value;
}

std::uint64_t parse_count(std::string_view text) {
  if (trim(text).starts_with('-')) fail(text, "is negative");
  if (text.find('^') != text.npos) return read_power(text);
  const Quantity quantity = split_quantity(text);
  if (!quantity.unit.empty()) fail(text, no_count);
  const Whole count = times(read_decimal(quantity.number, text, no_count), 1);
  if (count.fault == Fault::overflow) fail(text, no_fit);
  if (count.fault == Fault::fraction) fail(text, "is not a whole number");
  return count.value;
}

double parse_number(std::string_view text) {
  std::string_view number = trim(text);
  const bool is_percentage = number.ends_with('%');
  if (is_percentage) number = trim(number.substr(0, number.size() - 1));
  double value = 0;
  const char* const end = number.data() + number.size();
  const auto [stop, error] = std::from_chars(number.data(), end, value);
  if (error == std::errc::result_out_of_range) fail(text, "is not in the range of a double");
  if (error != std::errc() || stop != end || !std::isfinite(value)) {
    fail(text, "is not a number: write for example 0.5, -2, 1e-3 or 5%");
  }
  return is_percentage ? value / 100 : value;
}

double parse_duration(std::string_view text) {
  if (trim(text).starts_with('-')) fail(text, "is negative");
  const auto [number, unit] = split_quantity(text);
  double value = 0;
  const char* const end = number.data() + number.size();
  const auto [stop, error] = std::from_chars(number.data(), end, value);
  if (error == std::errc::result_out_of_range) fail(text, "is not in the range of a double");
  if (error != std::errc() || stop != end) fail(text, no_duration);
  if (unit.empty()) fail(text, fmt::format("has no unit: write {0}s or {0}min", number));
  if (unit == "m") fail(text, fmt::format("is ambiguous: write {0}min or {0}ms", number));

  if (unit == "ms") return value / 1e3;
  if (unit == "s") return value;
  const double factor = unit == "min" ? 60 : unit == "h" ? 3600 : 0;
  if (factor == 0)
    fail(text, fmt::format("has the unknown unit {}: write ms, s, min or h", excerpt(unit)));
  if (!std::isfinite(value * factor)) fail(text, "is not in the range of a double");
  return value * factor;
}

std::string format_size(std::uint64_t bytes) {
  // Up to EiB: 2^64 - 1 bytes would be five digits of PiB.
  constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  double value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return fmt::format("{:.4g} {}", value, units[unit]);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) return fmt::format("{} s", seconds);
  if (seconds < 0) return fmt::format("-{}", format_duration(-seconds));
  // From each bound on, rounding to the digits shown would carry into the next unit.
  if (seconds >= 3599.5) {
    const double minutes = std::round(seconds / 60);
    return fmt::format("{:.0f} h {:.0f} min", std::floor(minutes / 60), std::fmod(minutes, 60));
  }
  if (seconds >= 59.95) {
    const double whole = std::round(seconds);
    return fmt::format("{:.0f} min {:.0f} s", std::floor(whole / 60), std::fmod(whole, 60));
  }
  if (seconds >= 0.9995 || seconds == 0) return fmt::format("{:.3g} s", seconds);
  if (seconds >= 0.9995e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds >= 0.9995e-6) return fmt::format("{:.3g} us", seconds * 1e6);
  return fmt::format("{:.3g} ns", seconds * 1e9);
}

std::string format_rounded(double value) {
  // All digits of the rounded number: "{:.2g}" itself would print 1.7e+02.
  const std::string digits = fmt::format("{:.1e}", value);
  double rounded = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), rounded);
  return fmt::format("{}", rounded);
}

std::string format_percent(double share) {
  return format_rounded(100 * share) + " %";
}

std::string format_change(double share) {
  return (std::signbit(share) ? "" : "+") + format_percent(share);
}

}  // namespace shardstream
