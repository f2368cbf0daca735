#include "workloads/reduce/reduce_statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/text.hpp"
#include "workloads/reduce/double_range.hpp"

namespace shardstream::workloads {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double smallest_normal = std::numeric_limits<double>::min();

// Values out of range

double smallest_sum_of(const CellView& cell) {
  return smallest_sum(static_cast<double>(cell.m.count));
}

Flaw flaw(bool is_finite, bool is_small) {
  return !is_finite ? Flaw::overflow : is_small ? Flaw::underflow : Flaw::none;
}

/// Whether products of weights and elements have lost digits.
bool has_small_products(const CellView& cell) {
  if (!cell.rules.is_weighted()) return false;
  const double largest = std::max(std::fabs(cell.m.min.real), std::fabs(cell.m.max.real));
  return cell.m.weight > 0 && largest > 0 && cell.m.weight * largest < smallest_sum_of(cell);
}

/// Whether sums of squares, or of the power of a deviation, have.
bool has_small_power(const CellView& cell, int power) {
  const double extent = cell.m.max.real - cell.m.min.real;
  if (extent == 0) return false;
  const double m2 = cell.m.m2;
  if (m2 < smallest_sum_of(cell) &&
      (m2 > 0 || cell.m.weight * extent * extent < smallest_sum_of(cell))) {
    return true;
  }
  return power > 2 && std::pow(extent, power) < smallest_sum_of(cell);
}

bool has_small_weights(const CellView& cell) {
  return cell.rules.is_weighted() && cell.m.weight > 0 && cell.m.weight2 < smallest_sum_of(cell);
}

Flaw flaw_of_mean(const CellView& cell, double value) {
  return flaw(std::isfinite(value), has_small_products(cell));
}
Flaw flaw_if_infinite(const CellView&, double value) {
  return flaw(std::isfinite(value), false);
}
Flaw flaw_of_effective_count(const CellView& cell, double) {
  return flaw(std::isfinite(cell.m.weight * cell.m.weight + cell.m.weight2),
              has_small_weights(cell));
}
Flaw flaw_of_variance(const CellView& cell, double) {
  const bool uses_squares = cell.rules.ddof > 0;  // of weights
  return flaw(std::isfinite(cell.m.m2) && (!uses_squares || std::isfinite(cell.m.weight2)),
              has_small_power(cell, 2) || (uses_squares && has_small_weights(cell)));
}
Flaw flaw_of_l2(const CellView& cell, double value) {
  return flaw(std::isfinite(value),
              has_small_power(cell, 2) && value * value < smallest_sum_of(cell));
}
Flaw flaw_of_rms(const CellView& cell, double value) {
  const Flaw of_l2 = flaw_of_l2(cell, value * std::sqrt(cell.m.weight));
  return of_l2 == Flaw::none ? flaw(true, has_small_products(cell)) : of_l2;
}
Flaw flaw_of_skewness(const CellView& cell, double) {
  const double variance = cell.m.m2 / static_cast<double>(cell.m.count);
  return flaw(std::isfinite(cell.m.m3) && std::isfinite(std::pow(variance, 1.5)),
              has_small_power(cell, 3));
}
Flaw flaw_of_kurtosis(const CellView& cell, double) {
  const auto n = static_cast<double>(cell.m.count);
  return flaw(std::isfinite(n * cell.m.m4) && std::isfinite(cell.m.m2 * cell.m.m2),
              has_small_power(cell, 4));
}

// Values. Those in double are asked only for cells that are defined.

CellValue undefined() {
  return value_of(nan);
}

/// The value of a formula in double, and its flaw if all elements are finite.
template <double (*Formula)(const CellView&), Flaw (*FlawOf)(const CellView&, double)>
CellValue real(const CellView& cell) {
  if (!cell.is_defined) return undefined();
  CellValue value = value_of(Formula(cell));
  if (cell.rules.can_leave_range() && cell.is_finite && cell.m.weight != 0) {
    value.flaw = FlawOf(cell, value.real);
  }
  return value;
}

CellValue count(const CellView& cell) {
  return value_of(cell.m.count);
}

CellValue exact_sum(const CellView& cell) {
  const cells::Int128 sum = cell.m.exact_sum;
  if (!cell.rules.has_arrays) return value_of(cell.m.sum);
  const bool is_u64 = cell.rules.type == ElementType::u64;
  const bool fits = is_u64 ? sum >= 0 && sum <= std::numeric_limits<std::uint64_t>::max()
                           : sum >= std::numeric_limits<std::int64_t>::min() &&
                                 sum <= std::numeric_limits<std::int64_t>::max();
  if (fits) return {static_cast<std::uint64_t>(sum), cell.m.sum};
  CellValue value = undefined();
  value.flaw = Flaw::overflow;
  return value;
}

CellValue sum(const CellView& cell) {
  if (!cell.is_sum_defined) return undefined();
  const bool is_weighted = cell.rules.is_weighted();
  if (cell.rules.has_integers() && !is_weighted) return exact_sum(cell);
  CellValue value =
      value_of(is_weighted ? std::ldexp(cell.m.sum, cell.rules.weight_exponent) : cell.m.sum);
  if (cell.rules.can_leave_range() && cell.is_finite && cell.m.count > 0) {
    value.flaw = flaw(std::isfinite(value.real), has_small_products(cell));
  }
  return value;
}

template <CellValue CellMoments::*Extreme>
CellValue extreme(const CellView& cell) {
  return cell.is_defined && !cell.has_nan ? cell.m.*Extreme : undefined();
}

template <std::int64_t CellMoments::*Index>
CellValue position(const CellView& cell) {
  return cell.is_defined && !cell.has_nan ? value_of(cell.m.*Index) : undefined();
}

CellValue count_nonzero(const CellView& cell) {
  return cell.is_sum_defined && !cell.has_nan ? value_of(cell.m.nonzeros) : undefined();
}

/// The product of no values is 1.
CellValue product(const CellView& cell) {
  if (!cell.is_sum_defined) return undefined();
  const cells::ScaledProduct& of = cell.m.product;
  const double mantissa = of.mantissa;
  constexpr std::int64_t beyond = 4096;  // every exponent of a double
  const auto exponent = static_cast<int>(std::clamp(of.exponent, -beyond, beyond));
  CellValue value = value_of(std::ldexp(mantissa, exponent));
  const bool is_small = mantissa != 0 && std::fabs(value.real) < smallest_normal;
  if (std::isfinite(mantissa)) value.flaw = flaw(std::isfinite(value.real), is_small);
  return value;
}

double mean(const CellView& cell) {
  return cell.mean();
}

double range(const CellView& cell) {
  return cell.m.range;
}

double effective_count(const CellView& cell) {
  if (cell.has_nan) return nan;
  return cell.rules.is_weighted() ? cell.m.weight * cell.m.weight / cell.m.weight2 : cell.m.weight;
}

/// With weights, the divisor is W - ddof V / W. W is the sum of the weights, V that of their
/// squares. For ddof 1 it is the unbiased one for weights that state reliability. It is 0, but for
/// rounding, if a single value has all the weight. The variance is NaN unless the divisor is
/// positive.
double variance(const CellView& cell) {
  if (cell.sum_is_nan) return nan;
  const auto ddof = static_cast<double>(cell.rules.ddof);
  const double weight = cell.m.weight;
  if (!cell.rules.is_weighted()) {
    const double divisor = weight - ddof;
    return divisor > 0 ? cell.m.m2 / divisor : nan;
  }
  const double divisor = weight - (ddof == 0 ? 0 : ddof * (cell.m.weight2 / weight));
  const double rounding = (static_cast<double>(cell.m.count) + 64) * 0x1p-53 * weight;
  return divisor > (ddof == 0 ? 0 : rounding) ? cell.m.m2 / divisor : nan;
}

double stddev(const CellView& cell) {
  return std::sqrt(variance(cell));
}

double skewness(const CellView& cell) {
  if (cell.sum_is_nan) return nan;
  const auto n = static_cast<double>(cell.m.count);
  return cell.m.m3 / n / std::pow(cell.m.m2 / n, 1.5);
}

double kurtosis(const CellView& cell) {
  if (cell.sum_is_nan) return nan;
  const auto n = static_cast<double>(cell.m.count);
  return n * cell.m.m4 / (cell.m.m2 * cell.m.m2) - 3;
}

double l1(const CellView& cell) {
  return cell.m.magnitude;
}

double l2(const CellView& cell) {
  const bool is_infinite = std::isinf(cell.m.min.real) || std::isinf(cell.m.max.real);
  if (is_infinite && !cell.has_nan) return std::numeric_limits<double>::infinity();
  const double n = cell.m.weight, mean = cell.mean();
  const double square = cell.m.m2 + n * (mean * mean);
  if (std::isfinite(square) && square >= smallest_sum_of(cell)) return std::sqrt(square);
  return std::hypot(std::sqrt(cell.m.m2), std::sqrt(n) * mean);
}

/// The root of the mean of the squares, weighted if there are weights. An infinity of weight 0
/// makes it NaN, and so do infinities of both signs, since the moments do not tell them apart.
double rms(const CellView& cell) {
  if (cell.m.weight == 0 || (cell.rules.is_weighted() && cell.sum_is_nan)) return nan;
  return l2(cell) / std::sqrt(cell.m.weight);
}

CellValue sum_of_weights(const CellView& cell) {
  if (!cell.is_sum_defined || cell.has_nan) return undefined();
  CellValue value = value_of(std::ldexp(cell.m.weight, cell.rules.weight_exponent));
  value.flaw = flaw(std::isfinite(value.real), false);
  return value;
}

// The rows

using Type = Statistic::Type;
using Units = Statistic::Units;

using cells::Quantity;
constexpr cells::Quantities extremes = Quantity::extremes;
constexpr cells::Quantities squares = Quantity::squares;  // with extremes in cells
constexpr cells::Quantities powers = squares | Quantity::powers;
constexpr cells::Quantities positions = extremes | Quantity::positions;

constexpr unsigned without_weights = Statistic::without_weights;
constexpr unsigned ignores_equal_weights = Statistic::ignores_equal_weights;

constexpr Statistic statistics_rows[] = {
    {.name = "count", .type = Type::count, .value = count, .check = &CellCheck::exact},
    {.name = "count-nonzero",
     .other_names = "nonzeros",
     .needs = extremes | Quantity::nonzeros,
     .type = Type::other_count,
     .value = count_nonzero,
     .check = &CellCheck::exact},
    {.name = "sum",
     .other_names = "total",
     .type = Type::sum,
     .units = Units::of_sum,
     .method = "sum",
     .value = sum,
     .check = &CellCheck::sum},
    {.name = "prod",
     .other_names = "product",
     .meaning = "the product",
     .needs = Quantity::product,
     .units = Units::unknown,
     .traits = without_weights,
     .value = product,
     .check = &CellCheck::product},
    {.name = "mean",
     .other_names = "avg average",
     .units = Units::of_data,
     .method = "mean",
     .traits = ignores_equal_weights,
     .value = real<mean, flaw_of_mean>,
     .check = &CellCheck::sum},
    {.name = "variance",
     .other_names = "var",
     .needs = squares,
     .units = Units::squared,
     .method = "variance",
     .traits = ignores_equal_weights,
     .value = real<variance, flaw_of_variance>,
     .check = &CellCheck::m2},
    {.name = "stddev",
     .other_names = "std sd sigma",
     .needs = squares,
     .units = Units::of_data,
     .method = "standard_deviation",
     .traits = ignores_equal_weights,
     .value = real<stddev, flaw_of_variance>,
     .check = &CellCheck::m2},
    {.name = "min",
     .other_names = "minimum",
     .needs = extremes,
     .type = Type::element,
     .units = Units::of_data,
     .method = "minimum",
     .value = extreme<&CellMoments::min>,
     .check = &CellCheck::exact,
     .index = &CellMoments::min_index},
    {.name = "max",
     .other_names = "maximum",
     .needs = extremes,
     .type = Type::element,
     .units = Units::of_data,
     .method = "maximum",
     .value = extreme<&CellMoments::max>,
     .check = &CellCheck::exact,
     .index = &CellMoments::max_index},
    {.name = "argmin",
     .other_names = "idxmin",
     .meaning = "the position of min",
     .needs = positions,
     .type = Type::position,
     .value = position<&CellMoments::min_index>,
     .check = &CellCheck::exact,
     .index = &CellMoments::min_index},
    {.name = "argmax",
     .other_names = "idxmax",
     .meaning = "that of max",
     .needs = positions,
     .type = Type::position,
     .value = position<&CellMoments::max_index>,
     .check = &CellCheck::exact,
     .index = &CellMoments::max_index},
    {.name = "range",
     .other_names = "ptp",
     .needs = extremes,
     .units = Units::of_data,
     .method = "range",
     .value = real<range, flaw_if_infinite>,
     .check = &CellCheck::exact},
    {.name = "skewness",
     .other_names = "skew",
     .needs = powers,
     .traits = without_weights,
     .value = real<skewness, flaw_of_skewness>,
     .check = &CellCheck::m3},
    {.name = "kurtosis",
     .other_names = "kurt",
     .meaning = "the excess",
     .needs = powers,
     .traits = without_weights,
     .value = real<kurtosis, flaw_of_kurtosis>,
     .check = &CellCheck::m4},
    {.name = "l1",
     .meaning = "the sum of absolute values",
     .needs = Quantity::magnitudes,
     .units = Units::of_data,
     .traits = without_weights,
     .value = real<l1, flaw_if_infinite>,
     .check = &CellCheck::magnitude},
    {.name = "l2",
     .other_names = "norm",
     .meaning = "the square root of the sum of squares",
     .needs = squares,
     .units = Units::of_data,
     .traits = without_weights,
     .value = real<l2, flaw_of_l2>,
     .check = &CellCheck::m2},
    {.name = "rms",
     .meaning = "the root mean square",
     .needs = squares,
     .units = Units::of_data,
     .method = "root_mean_square",
     .traits = ignores_equal_weights,
     .value = real<rms, flaw_of_rms>,
     .check = &CellCheck::m2},
    {.name = "sum-of-weights",
     .needs = extremes,
     .units = Units::of_weights,
     .value = sum_of_weights,
     .check = &CellCheck::weight},
    {.name = "effective-count",
     .needs = extremes,
     .traits = ignores_equal_weights,
     .value = real<effective_count, flaw_of_effective_count>,
     .check = &CellCheck::weight},
};

}  // namespace

ElementType Statistic::type_for(ElementType elements, bool is_weighted) const {
  switch (type) {
    case Type::count:
    case Type::other_count:
    case Type::position:
      return ElementType::i64;
    case Type::sum:
      if (is_weighted) return ElementType::f64;
      [[fallthrough]];
    case Type::element:
      if (elements == ElementType::f32 || elements == ElementType::f64) return ElementType::f64;
      return elements == ElementType::u64 ? ElementType::u64 : ElementType::i64;
    case Type::real:
      break;
  }
  return ElementType::f64;
}

std::string Statistic::exact_text(const CellValue& of, ElementType elements,
                                  bool is_weighted) const {
  if (std::isnan(of.real)) return "nan";
  const ElementType own = type_for(elements, is_weighted);
  if (own == ElementType::f64) return fmt::format("{}", of.real);
  return own == ElementType::u64 ? fmt::format("{}", of.bits)
                                 : fmt::format("{}", static_cast<std::int64_t>(of.bits));
}

std::string Statistic::units_for(const std::string& of_data,
                                 const std::optional<std::string>& of_weights) const {
  switch (units) {
    case Units::one:
      return "1";
    case Units::unknown:
      return "";
    case Units::of_weights:
      return of_weights.value_or("1");
    case Units::of_sum:
      return of_weights ? "" : of_data;
    case Units::squared:
      return of_data.empty() ? "" : fmt::format("({})^2", of_data);
    case Units::of_data:
      break;
  }
  return of_data;
}

std::string Statistic::key() const {
  std::string key(name);
  std::ranges::replace(key, '-', '_');
  return key;
}

std::span<const Statistic> all_statistics() {
  return statistics_rows;
}

const Statistic& statistic(std::string_view name) {
  const auto* const found = std::ranges::find(statistics_rows, name, &Statistic::name);
  expect(found != std::end(statistics_rows), "the operation is a statistic");
  return *found;
}

std::string statistic_other_names() {
  std::vector<std::string> pairs;
  for (const Statistic& each : statistics_rows) {
    if (each.other_names.empty()) continue;
    for (const std::string_view other : split(each.other_names, ' ')) {
      pairs.push_back(fmt::format("{}={}", other, each.name));
    }
  }
  return join(pairs, " ");
}

std::string statistic_meanings() {
  std::vector<std::string> sentences;
  for (const Statistic& each : statistics_rows) {
    if (!each.meaning.empty())
      sentences.push_back(fmt::format("{} is {}", each.name, each.meaning));
  }
  return join(sentences, "; ");
}

std::string statistic_choices() {
  return join(all_statistics(), "|", [](const Statistic& each) { return each.name; });
}

cells::Quantities quantities_of(std::span<const std::string> names, ElementType elements,
                                bool is_weighted) {
  cells::Quantities all;
  if (is_weighted) all = Quantity::weights | Quantity::extremes;
  if (elements == ElementType::f64) all = all | extremes;
  for (const std::string& name : names) all = all | statistic(name).needs;
  return all.has(Quantity::squares) ? all | extremes : all;
}

}  // namespace shardstream::workloads
