#include "workloads/histogram/histogram_options.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>

#include "core/error.hpp"
#include "core/units.hpp"

namespace shardstream::workloads::histogram {
namespace {

constexpr std::array rows = {
    OptionRow{"histogram.bins", OptionKind::count, "100", "1..1048576",
              "The number of bins of equal width."},
    OptionRow{"histogram.range", OptionKind::text, "", "",
              "Required: the range LOW,HIGH of the bins, such as -5,5. HIGH is in the last bin."},
};

/// Whether each edge is larger than the one before.
bool are_distinct(const Bins& bins) {
  for (std::uint32_t i = 0; i < bins.count; ++i) {
    if (!(bins.edge(i) < bins.edge(i + 1))) return false;
  }
  return true;
}

}  // namespace

std::span<const OptionRow> histogram_options() {
  return rows;
}

Bins bins_of(const Options& options) {
  const std::string& range = options.text("histogram.range");
  const std::size_t comma = range.find(',');
  if (comma == std::string::npos) {
    throw UsageError(fmt::format(
        "histogram.range: '{}' is no range: name that of the bins, such as --histogram.range 0,1",
        range));
  }
  Bins bins{.low = 0, .high = 0, .count = 0};
  try {
    bins = {.low = parse_number(range.substr(0, comma)),
            .high = parse_number(range.substr(comma + 1)),
            .count = static_cast<std::uint32_t>(options.count("histogram.bins"))};
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("histogram.range: '{}': {}", range, error.what()));
  }
  if (!(bins.low < bins.high)) {
    throw UsageError(fmt::format(
        "histogram.range: in '{}' the second number is not larger than the first: name LOW,HIGH",
        range));
  }
  if (!std::isfinite(bins.high - bins.low)) {
    throw UsageError(fmt::format(
        "histogram.range: '{}' is wider than the largest double: name a range below 1.8e308",
        range));
  }
  if (are_distinct(bins)) return bins;
  Bins fewer = bins;
  while (!are_distinct(fewer)) fewer.count /= 2;
  throw UsageError(fmt::format(
      "histogram.bins: the edges of {} bins in the range {} are not distinct in fp64: use fewer "
      "bins, such as {}, or a wider range",
      bins.count, range, fewer.count));
}

}  // namespace shardstream::workloads::histogram
