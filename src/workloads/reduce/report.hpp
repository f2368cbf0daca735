// The report of `reduce`: the exact values of its operations, and their verification.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/source/labels.hpp"
#include "kernels/reduce/reduce.hpp"
#include "kernels/reduce/reference.hpp"
#include "workloads/reduce/double_range.hpp"
#include "workloads/reduce/statistics.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads {

using reduce::Deviation;
using reduce::Partial;

/// The [reduce] options.
struct StatisticsRequest {
  std::vector<std::string> ops;
  std::string missing;          ///< the policy
  std::uint64_t ddof = 0;       ///< the divisor of the variance is count - ddof
  std::uint64_t min_count = 0;  ///< with fewer values, every result but the count is NaN

  bool needs(Ingredient ingredient) const {
    return std::ranges::any_of(
        ops, [=](const std::string& op) { return statistic(op).needs(ingredient); });
  }
};

/// The statistics of each leaf. If the data have a convention for missing values, leaves always
/// leave them out, so that the count is that of valid values under every policy.
template <class T>
reduce::Want want_of(const StatisticsRequest& request, const io::Source& source) {
  const bool declared = source.declares_missing();
  reduce::Want want{.extremes = request.needs(Ingredient::extremes),
                    .variance = request.needs(Ingredient::squares),
                    .skip_missing = declared};
  if constexpr (std::floating_point<T>) {
    want.skip_missing = declared || request.missing == "ignore";
  } else if (declared) {
    const auto marker = static_cast<T>(source.conversions().front().missing_element);
    want.marker = static_cast<std::int64_t>(marker);
  }
  return want;
}

/// The elements that are not valid.
struct Invalid {
  std::int64_t missing;  ///< declared by attributes
  std::int64_t nans;     ///< all other NaNs
  bool makes_nan;        ///< whether every result but the count is NaN, also for too few values
  std::int64_t first;    ///< the first of those that make it so, if it is known; or no_index
};

template <class Wide>
Invalid invalid_of(const StatisticsRequest& request, const Partial<Wide>& total,
                   std::int64_t missing) {
  const std::int64_t nans = total.missing - missing;
  const bool all = request.missing == "propagate";
  const bool makes_nan = all ? total.missing > 0 : request.missing == "auto" && nans > 0;
  const bool are_few = static_cast<std::uint64_t>(total.count) < request.min_count;
  // Leaves do not distinguish between NaNs and missing values.
  const bool is_known = makes_nan && (all || missing == 0);
  return {missing, nans, makes_nan || are_few, is_known ? total.first_missing : reduce::no_index};
}

/// The value of each operation, with all its digits.
template <class T>
class Values {
 public:
  using Wide = reduce::Extreme<T>;
  struct Value {
    double real;
    std::string exact;  ///< all digits, from which the same bits can be read
    std::int64_t index = reduce::no_index;
  };

  Values(const Partial<Wide>& total, const Invalid& invalid, std::uint64_t ddof)
      : total_(total), invalid_(invalid), ddof_(ddof) {}

  Value operator[](std::string_view op) const {
    if (op == "count") return integer(total_.count);
    if (invalid_.makes_nan) {
      return {quiet_nan, "nan", op == "min" || op == "max" ? invalid_.first : reduce::no_index};
    }
    if (op == "sum") return sum();
    if (op == "mean") return real(mean());
    if (op == "variance") return real(variance());
    if (op == "stddev") return real(std::sqrt(variance()));
    if (op == "min") return extreme(total_.min, total_.min_index);
    expect(op == "max", "leaves have the statistic");
    return extreme(total_.max, total_.max_index);
  }

 private:
  static constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();

  static Value real(double x) {
    if (std::isnan(x)) x = quiet_nan;  // sign and payload of a NaN are meaningless
    return {x, fmt::format("{}", x)};
  }
  template <class Integer>
  static Value integer(Integer x) {
    return {static_cast<double>(x), fmt::format("{}", x)};
  }
  Value sum() const {
    if constexpr (std::integral<T>)
      return integer(total_.sum);
    else
      return real(total_.sum);
  }
  double mean() const {
    return total_.count == 0 ? quiet_nan
                             : reduce::to_double(total_.sum) / static_cast<double>(total_.count);
  }
  double variance() const {
    const auto count = static_cast<std::uint64_t>(total_.count);
    return count <= ddof_ ? quiet_nan : total_.m2 / static_cast<double>(count - ddof_);
  }
  Value extreme(Wide value, std::int64_t index) const {
    if (index == reduce::no_index) return {quiet_nan, "nan"};
    if constexpr (std::integral<T>) {
      return {static_cast<double>(value), fmt::format("{}", value), index};
    } else {
      return {value, fmt::format("{}", static_cast<T>(value)), index};
    }
  }

  Partial<Wide> total_;
  Invalid invalid_;
  std::uint64_t ddof_;
};

/// The coordinates of element `index`, such as "12,34"; empty for no_index.
inline std::string place(const io::Source& source, std::int64_t index) {
  if (index == reduce::no_index) return "";
  return join(source.coordinates(static_cast<std::uint64_t>(index)), ",");
}

/// The coordinates of each of these elements, such as "time=30, lat=-10"; empty for no_index, or if
/// there are none. `warnings`: as for io::labels_of().
inline std::vector<std::string> coordinates_of(const io::Source& source,
                                               const std::vector<std::int64_t>& indices,
                                               std::vector<std::string>& warnings) {
  std::vector<io::Extents> positions;
  for (const std::int64_t index : indices) {
    if (index == reduce::no_index) continue;
    positions.push_back(source.coordinates(static_cast<std::uint64_t>(index)));
  }
  std::vector<std::string> found = coordinates_at(source, positions, warnings), all;
  auto next = found.begin();
  for (const std::int64_t index : indices) {
    all.push_back(index == reduce::no_index ? "" : std::move(*next++));
  }
  return all;
}

/// The deviation of an operation; exact operations share one.
inline Deviation deviation_of(std::string_view op, const reduce::LeafCheck& check) {
  if (op == "sum") return check.sum;
  if (op == "mean") return check.mean;
  if (op == "variance") return check.variance;
  if (op == "stddev") return check.stddev;
  return check.exact;
}

/// The checks of the whole result.
struct Checks {
  bool whole;       ///< all elements were counted, and exact statistics of sampled leaves are right
  bool overflows;   ///< sums of finite elements have exceeded the range of double
  bool underflows;  ///< squares of deviations that are not 0 have lost digits
};

/// The table of the results, which is created on first use.
inline Table& statistics_table(Outcome& outcome) {
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

/// Throws the Error for values that are missing or NaN if reduce.missing is error. `first` is the
/// index of the first one.
[[noreturn]] inline void reject(const io::Source& source, std::uint64_t missing,
                                std::int64_t first) {
  throw Error(fmt::format(
      "{} of {} values of {} are missing or NaN, the first at ({}): pass --reduce.missing ignore "
      "or propagate",
      missing, source.count(), source.name(), place(source, first)));
}

/// Fills in the table and the printed lines. The result is verified if it is `whole` and no
/// operation deviates by more than its bound. A value out of range is named and not verified.
/// Only the root, whose results count, reads coordinates. `warnings`: as for io::labels_of().
template <class T>
void report_values(const io::Source& source, const StatisticsRequest& request,
                   const Partial<reduce::Extreme<T>>& total, const Invalid& invalid,
                   const reduce::LeafCheck& check, Checks checks, bool is_root,
                   std::vector<std::string>& warnings, Outcome& outcome) {
  Table& table = statistics_table(outcome);
  const Values<T> values(total, invalid, request.ddof);
  std::vector<std::string> coordinates(request.ops.size());
  OutOfRange out_of_range;
  if (is_root) {
    std::vector<std::int64_t> indices;
    for (const std::string& op : request.ops) indices.push_back(values[op].index);
    coordinates = coordinates_of(source, indices, warnings);
  }
  auto next = coordinates.begin();
  for (const std::string& op : request.ops) {
    const auto value = values[op];
    const Deviation deviation = deviation_of(op, check);
    const std::string position = place(source, value.index);
    const bool is_sum = value.index == reduce::no_index;  // extremes are elements
    const bool overflow = checks.overflows && is_sum && !std::isfinite(value.real);
    const bool underflow = checks.underflows && statistic(op).needs(Ingredient::squares);
    if (overflow) out_of_range.overflow.push_back(op);
    if (underflow) out_of_range.underflow.push_back(op);
    const std::string& where = *next++;
    table.add({op, value.real, value.exact, value.index, position, where,
               std::int64_t{checks.whole && deviation.passes() && !overflow && !underflow},
               deviation.error, deviation.bound});
    outcome.metrics.push_back({.key = op, .value = value.exact, .number = value.real});
    if (!position.empty()) outcome.metrics.push_back({op + "_position", position});
    if (!where.empty()) outcome.metrics.push_back({op + "_coordinates", where});
    if (!deviation.passes() && outcome.verdict.empty()) {
      outcome.verdict = fmt::format(
          "the {} of a sampled leaf is {:.3g} away from its reference, more than {:.3g}", op,
          deviation.error, deviation.bound);
    }
  }
  if (invalid.nans > 0) outcome.metrics.push_back({"nans", invalid.nans});
  out_of_range.describe(checks.whole && outcome.verdict.empty(), outcome);
}

}  // namespace shardstream::workloads
