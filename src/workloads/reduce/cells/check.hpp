// The check of sampled boxes: the moments of each of their cells against independent sums.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "workloads/reduce/cells/cell.hpp"
#include "workloads/reduce/cells/cell_check.hpp"
#include "workloads/reduce/cells/cell_plan.hpp"

namespace shardstream::workloads {

/// Values of one cell, in the order of storage.
template <class T>
struct CellSample {
  std::vector<T> values;
  std::vector<std::int64_t> numbers;  ///< of the values within the cell
  std::vector<double> weights;        ///< empty without weights
  std::int64_t count = 0;             ///< of the values that count

  double weight(std::size_t i) const { return weights.empty() ? 1 : weights[i]; }
};

/// The deviation of a sum from its reference. `size` is at least the sum of the magnitudes of its
/// terms: if that exceeds the range of double, only a finite sum can be checked.
inline Deviation sum_deviation(double value, long double reference, long double bound,
                               long double size) {
  if (!std::isfinite(value) && !std::isfinite(static_cast<double>(size))) return {};
  return {static_cast<double>(std::fabs(value - reference)), static_cast<double>(bound)};
}

/// The error of sums of n products that are subnormal: each is rounded to a multiple of 2^-1074.
inline long double subnormal_rounding(std::size_t n) {
  const auto count = static_cast<long double>(n);
  return 16 * (count + 64) * (count + 1) * 0x1p-1074L;
}

/// The moments of a sample about its mean, in extended precision.
struct SampleMoments {
  long double weight = 0, m2 = 0, m3 = 0, m4 = 0;
  long double largest = 0;      ///< deviation from the mean of a value with a weight
  long double largest_any = 0;  ///< of any value

  template <class T>
  explicit SampleMoments(const CellSample<T>& sample) {
    // Deviations from a value of the largest weight have the digits of those from the mean.
    std::size_t center = 0;
    for (std::size_t i = 0; i < sample.values.size(); ++i) {
      weight += sample.weight(i);
      if (sample.weight(center) < sample.weight(i)) center = i;
    }
    if (weight == 0) return;
    const long double first = sample.values[center];
    long double offset = 0;  // of the mean
    for (std::size_t i = 0; i < sample.values.size(); ++i) {
      offset += sample.weight(i) / weight * (sample.values[i] - first);
    }
    for (std::size_t i = 0; i < sample.values.size(); ++i) {
      const long double w = sample.weight(i), d = (sample.values[i] - first) - offset;
      m2 += w * d * d;
      m3 += w * d * d * d;
      m4 += w * d * d * d * d;
      largest_any = std::max(largest_any, std::fabs(d));
      if (w > 0) largest = std::max(largest, std::fabs(d));
    }
  }
};

/// Compares the product of a sample with one whose factors are multiplied in extended precision, in
/// the opposite order. Each of the n multiplications, and the conversion of each integer, changes
/// the result by at most u = 2^-53 times itself.
template <class T>
Deviation product_deviation(const CellSample<T>& sample, const cells::ScaledProduct& product) {
  long double mantissa = 1;
  long exponent = 0;
  for (std::size_t i = sample.values.size(); i-- > 0;) {
    int own = 0;
    mantissa = std::frexp(mantissa * static_cast<long double>(sample.values[i]), &own);
    exponent += own;
  }
  const auto apart = std::clamp<std::int64_t>(product.exponent - exponent, -16384, 16383);
  const long double value =
      std::ldexp(static_cast<long double>(product.mantissa), static_cast<int>(apart));
  const auto steps = static_cast<long double>(sample.values.size()) + 64;
  return {static_cast<double>(std::fabs(value - mantissa)),
          static_cast<double>(2 * steps * 0x1p-53L * std::fabs(mantissa))};
}

/// The part of check_cell() for squares and powers.
template <class T>
void check_powers(const CellSample<T>& sample, const CellMoments& m, cells::Quantities quantities,
                  CellCheck& check) {
  using Real = long double;
  const SampleMoments about(sample);
  if (about.weight == 0) return;
  const auto count = static_cast<Real>(sample.values.size());
  const Real steps = (count + 64) * 0x1p-53L;
  const Real any = about.largest_any;
  const Real squares = 32 * about.weight * any * any;
  const Real largest = std::min(about.weight * about.largest * about.largest, count * about.m2);
  const Real of_squares = subnormal_rounding(sample.values.size()) * (1 + any);
  check.m2 = sum_deviation(m.m2, about.m2, 32 * steps * largest + of_squares, squares);
  if (!quantities.has(cells::Quantity::powers)) return;
  const Real cubes = 8 * squares * any, fourths = 32 * squares * any * any;
  check.m3 = sum_deviation(m.m3, about.m3, steps * cubes + of_squares, cubes);
  check.m4 = sum_deviation(m.m4, about.m4, steps * fourths + of_squares * (1 + any), fourths);
}

/// Compares the moments of a cell with sums in extended precision. The bounds follow from the
/// number of additions n and the unit roundoff u: an addition changes a sum by at most u times the
/// sum of magnitudes, so n + 64 of them, which includes the trees, change it by (n + 64) u times
/// that. Powers are those of deviations from the shift, a value of the cell, which are at most
/// twice the largest deviation D from the mean. The value of the largest weight w is the shift, and
/// w D^2 <= m2, so that the squares of its deviation, times all weights, are at most n m2. So
/// values that hardly count do not make the bound of m2 larger.
template <class T>
CellCheck check_cell(const CellSample<T>& sample, const CellMoments& m,
                     cells::Quantities quantities) {
  using cells::Quantity;
  using Real = long double;
  CellCheck check;
  const std::size_t n = sample.values.size();
  bool is_exact = m.count == sample.count;
  Real sum = 0, size = 0, weight = 0, weight2 = 0;
  bool is_finite = true;
  std::int64_t nonzeros = 0;
  cells::KeyRange<T> range;
  for (std::size_t i = 0; i < n; ++i) {
    const Real x = sample.values[i], w = sample.weight(i);
    is_finite = is_finite && std::isfinite(static_cast<double>(x));
    sum += w * x;
    size += w * std::fabs(x);
    nonzeros += x != 0 && x == x;
    weight += w;
    weight2 += w * w;
    range.template add<true>(cells::extreme_key(sample.values[i]), sample.numbers[i]);
  }
  if (quantities.has(Quantity::extremes) && m.count > 0) {
    const auto is_right = [](const CellValue& value, auto key) {
      return value.bits == element_with<T>(key).bits;
    };
    is_exact = is_exact && is_right(m.min, range.min) && is_right(m.max, range.max);
  }
  if (quantities.has(Quantity::positions)) {
    is_exact = is_exact && range.min_index == m.min_index && range.max_index == m.max_index;
  }
  if (quantities.has(Quantity::nonzeros)) is_exact = is_exact && nonzeros == m.nonzeros;
  check.exact = {is_exact ? 0.0 : 1.0, 0};
  if (!is_finite || n == 0) return check;
  const auto count = static_cast<Real>(n);
  const Real steps = (count + 64) * 0x1p-53L;
  const Real rounding = subnormal_rounding(n);
  const bool is_weighted = quantities.has(Quantity::weights);
  const Real of_products = is_weighted ? rounding : 0;
  check.sum = sum_deviation(m.sum, sum, 2 * steps * size + of_products, size);
  if constexpr (std::integral<T>) {
    cells::Int128 exact = 0;
    for (const T x : sample.values) exact += x;
    if (!is_weighted) check.sum = {exact == m.exact_sum ? 0.0 : 1.0, 0};
  }
  if (is_weighted) {
    check.weight = Deviation::worse(
        sum_deviation(m.weight, weight, 2 * steps * weight, weight),
        sum_deviation(m.weight2, weight2, 2 * steps * weight2 + rounding, weight2));
  }
  if (quantities.has(Quantity::product)) check.product = product_deviation(sample, m.product);
  if (quantities.has(Quantity::magnitudes)) {
    check.magnitude = sum_deviation(m.magnitude, size, 2 * steps * size, size);
  }
  if (quantities.has(Quantity::squares)) check_powers(sample, m, quantities, check);
  return check;
}

}  // namespace shardstream::workloads
