// Numbers as users write them: sizes, counts and durations; and the same numbers as we print them.
// Every reader throws UsageError with one sentence that names the text and what would be right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardstream {

/// Bytes from "64MiB" (2^20), "1.5GB" (10^9), "4096B" or "4096". "64M" is rejected, and the message
/// names both possible sizes.
std::uint64_t parse_size(std::string_view text);

/// A whole number from "42", "2^24", "2^31+3", "1e9" or "1.5e6".
std::uint64_t parse_count(std::string_view text);

/// A finite real number from "0.5", "-2", "1e-3" or "5%", which is 0.05.
double parse_number(std::string_view text);

/// Seconds from "250ms", "30s", "10min", "2h" or "1.5s". A number without a unit is rejected.
double parse_duration(std::string_view text);

/// "64 MiB", "1.5 GiB": the largest binary unit with at most four digits before the point.
std::string format_size(std::uint64_t bytes);

/// "12.3 ms", "4.56 s", "3 min 20 s".
std::string format_duration(double seconds);

/// "0.51", "1.2", "170": two significant digits, and no exponent for large numbers.
std::string format_rounded(double value);

/// "0.51 %", "1.2 %", "170 %": a share, rounded in the same way.
std::string format_percent(double share);

/// The same with a sign: "+1.2 %", "-30 %".
std::string format_change(double share);

}  // namespace shardstream
