#include "workloads/reduce/reduce_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::workloads {
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
  if (index == cells::no_index) return "";
  return join(source.coordinates(static_cast<std::uint64_t>(index)), ",");
}

void reject(const io::Source& source, std::uint64_t missing, std::int64_t first) {
  throw Error(fmt::format(
      "{} of {} values of {} are missing or NaN, the first at ({}): pass --reduce.missing ignore "
      "or propagate",
      missing, source.count(), source.name(), place(source, first)));
}

}  // namespace shardstream::workloads
