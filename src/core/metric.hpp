// The results that a command prints: lines KEY=VALUE UNIT for people, or one JSON object.
#pragma once

#include <limits>
#include <span>
#include <string>

#include "core/table.hpp"

namespace shardstream {

/// The form of a command's results on standard output.
enum class Printing {
  text,
  json,
  none  ///< for --quiet, which also omits progress and information
};

struct Metric {
  std::string key;
  Cell value;
  std::string unit = {};
  const char* format = "{}";  ///< fmt's format of a real number; "{}" prints all digits
  /// The number whose exact digits `value`, a text, has; NaN if the text is no number.
  double number = std::numeric_limits<double>::quiet_NaN();
};

/// The value as a number; NaN if it is a word.
double number_of(const Metric& metric);

/// One line KEY=VALUE UNIT for each metric. Line breaks in values are escaped.
std::string to_text(std::span<const Metric> metrics);

/// One indented JSON object with a final newline, all of it printable ASCII: the values by key,
/// with all digits, and "units" with the units by key. Numbers that are not finite become null.
std::string to_json(std::span<const Metric> metrics);

/// print_output() of the metrics. Prints nothing for Printing::none.
void print_metrics(std::span<const Metric> metrics, Printing printing,
                   std::string_view consolation = {});

}  // namespace shardstream
