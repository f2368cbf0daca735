// The measured time of a program, from its standard output.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace shardstream::scale::program {

/// A number that a program prints.
struct Metric {
  std::string name;
  std::string regex;       ///< with one group, which is the number
  std::string unit = "s";  ///< ns, us, ms, s, min or h
};

/// The metric of "NAME=re:REGEX" or "NAME=re:REGEX:UNIT". Throws UsageError, which names
/// scale.metric.
Metric parse_metric(std::string_view text);

/// Throws UsageError, which names `option`, if `regex` is not a regular expression (ECMAScript).
void check_regex(std::string_view option, const std::string& regex);

/// A value that was found, or the reason why there is none.
struct MetricValue {
  std::string text;          ///< as the program has printed it
  double number = 0;         ///< in the unit of the metric
  double seconds = 0;        ///< above zero, finite
  std::string problem = {};  ///< a sentence, with the line of the output; empty: there is a value
};

/// The only match of the metric in the file `output`. Of each line, the first 8192 bytes count.
MetricValue find_metric(const Metric& metric, const std::filesystem::path& output);

/// Whether a line of the file `output` matches. Of each line, the first 8192 bytes count.
bool has_line(const std::string& regex, const std::filesystem::path& output);

}  // namespace shardstream::scale::program
