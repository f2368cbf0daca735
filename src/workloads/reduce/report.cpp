#include "workloads/reduce/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/source/labels.hpp"
#include "workloads/reduce/double_range.hpp"
#include "workloads/reduce/statistics.hpp"

namespace shardstream::workloads {
namespace {

struct LeafValue {
  double real;
  std::string exact;                      ///< all digits, from which the same bits can be read
  std::int64_t index = reduce::no_index;  ///< of the element that is the value, if one is
};

/// A value with all its digits. Elements of f32 have those of f32.
std::string exact_text(const Statistic& op, const CellValue& value, ElementType elements) {
  const bool is_f32 = elements == ElementType::f32 && op.is_element();
  if (!is_f32 || std::isnan(value.real)) return op.exact_text(value, elements, false);
  return fmt::format("{}", static_cast<float>(value.real));
}

LeafValue value_of(const LeafResults& results, const Statistic& op) {
  const CellMoments& total = results.total;
  if (results.invalid.makes_nan && !op.is_count()) {
    const std::int64_t first = op.is_element() ? results.invalid.first : reduce::no_index;
    return {std::numeric_limits<double>::quiet_NaN(), "nan", first};
  }
  const CellView all(total, results.rules, static_cast<std::uint64_t>(total.count));
  // No array holds the sum, so that it may have more than 64 bits.
  if (op.is_sum() && results.rules.has_integers() && all.is_sum_defined) {
    return {total.sum, fmt::format("{}", total.exact_sum)};
  }
  const CellValue value = op.value(all);
  const bool is_defined = !std::isnan(value.real);
  return {value.real, exact_text(op, value, results.rules.type),
          op.is_element() && is_defined ? total.*op.index : reduce::no_index};
}

/// The coordinates of each of these elements, such as "time=30, lat=-10"; empty for no_index, or if
/// there are none. `warnings`: as for io::labels_of().
std::vector<std::string> coordinates_of(const io::Source& source,
                                        const std::vector<LeafValue>& values,
                                        std::vector<std::string>& warnings) {
  std::vector<io::Extents> positions;
  for (const LeafValue& value : values) {
    if (value.index == reduce::no_index) continue;
    positions.push_back(source.coordinates(static_cast<std::uint64_t>(value.index)));
  }
  std::vector<std::string> found = io::coordinates_at(source, positions, warnings), all;
  auto next = found.begin();
  for (const LeafValue& value : values) {
    all.push_back(value.index == reduce::no_index ? "" : std::move(*next++));
  }
  return all;
}

}  // namespace

Table& statistics_table(Outcome& outcome) {
  const auto found = std::ranges::find(outcome.results, "reduce", &Table::name);
  if (found != outcome.results.end()) return *found;
  outcome.results.push_back(Table("reduce", {{"op", ColumnType::text},
                                             {"value", ColumnType::real},
                                             {"exact", ColumnType::text},
                                             {"index", ColumnType::integer},
                                             {"position", ColumnType::text},
                                             {"coordinates", ColumnType::text},
                                             {"validated", ColumnType::integer},
                                             {"max_error", ColumnType::real},
                                             {"tolerance", ColumnType::real}}));
  return outcome.results.back();
}

std::string place(const io::Source& source, std::int64_t index) {
  if (index == reduce::no_index) return "";
  return join(source.coordinates(static_cast<std::uint64_t>(index)), ",");
}

void reject(const io::Source& source, std::uint64_t missing, std::int64_t first) {
  throw Error(fmt::format(
      "{} of {} values of {} are missing or NaN, the first at ({}): pass --reduce.missing ignore "
      "or propagate",
      missing, source.count(), source.name(), place(source, first)));
}

void report_leaves(const LeafResults& results, bool is_root, std::vector<std::string>& warnings,
                   Outcome& outcome) {
  Table& table = statistics_table(outcome);
  std::vector<LeafValue> values;
  for (const std::string& name : results.ops) {
    values.push_back(value_of(results, statistic(name)));
  }
  std::vector<std::string> coordinates(values.size());
  if (is_root) coordinates = coordinates_of(results.source, values, warnings);
  OutOfRange out_of_range;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Statistic& op = statistic(results.ops[i]);
    const std::string name(op.name);
    const LeafValue& value = values[i];
    const reduce::Deviation deviation = results.check.*op.leaf_check;
    const std::string position = place(results.source, value.index);
    const bool overflow = results.overflows && !op.is_element() && !std::isfinite(value.real);
    const bool underflow = results.underflows && op.needs.has(cells::Quantity::squares);
    if (overflow) out_of_range.overflow.push_back(name);
    if (underflow) out_of_range.underflow.push_back(name);
    table.add({name, value.real, value.exact, value.index, position, coordinates[i],
               std::int64_t{results.is_whole && deviation.passes() && !overflow && !underflow},
               deviation.error, deviation.bound});
    outcome.metrics.push_back({.key = op.key(), .value = value.exact, .number = value.real});
    if (!position.empty()) outcome.metrics.push_back({op.key() + "_position", position});
    if (!coordinates[i].empty()) {
      outcome.metrics.push_back({op.key() + "_coordinates", coordinates[i]});
    }
    if (!deviation.passes() && outcome.verdict.empty()) {
      outcome.verdict = fmt::format(
          "the {} of a sampled leaf is {:.3g} away from its reference, more than {:.3g}", name,
          deviation.error, deviation.bound);
    }
  }
  if (results.invalid.nans > 0) outcome.metrics.push_back({"nans", results.invalid.nans});
  out_of_range.describe(results.is_whole && outcome.verdict.empty(), outcome);
}

}  // namespace shardstream::workloads
