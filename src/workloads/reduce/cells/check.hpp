// The check of sampled boxes: the moments of each of their cells against independent sums.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cells/dispatch.hpp"
#include "kernels/reduce/reference.hpp"
#include "workloads/reduce/cells/plan.hpp"

namespace shardstream::workloads {

/// The largest deviations of sampled cells, each relative to its bound.
struct CellCheck {
  reduce::Deviation exact;  ///< of counts and extremes: 0, or 1 if one is wrong
  reduce::Deviation sum, m2, m3, m4, magnitude, weight;
  bool overflows = false;  ///< whether sums of finite values exceed the range of double

  void add(const CellCheck& other) {
    for (const auto member : {&CellCheck::exact, &CellCheck::sum, &CellCheck::m2, &CellCheck::m3,
                              &CellCheck::m4, &CellCheck::magnitude, &CellCheck::weight}) {
      this->*member = reduce::Deviation::worse(this->*member, other.*member);
    }
    overflows = overflows || other.overflows;
  }
};

/// Values of one cell, in the order of storage.
template <class T>
struct CellSample {
  std::vector<T> values;
  std::vector<std::int64_t> numbers;  ///< of the values within the cell
  std::vector<double> weights;        ///< empty without weights
};

/// Compares the moments of a cell with sums in extended precision. The bounds follow from the
/// number of additions n and the unit roundoff u: an addition changes a sum by at most u times the
/// sum of magnitudes, so n + 64 of them, which includes the trees, change it by (n + 64) u times
/// that. A deviation from the shift, a value of the cell, is at most twice the largest deviation D
/// from the mean.
template <class T, cells::Set S>
CellCheck check_cell(const CellSample<T>& sample, const cells::Moments<T, S>& m) {
  using Real = long double;
  CellCheck check;
  const std::size_t n = sample.values.size();
  bool is_exact = m.count == static_cast<std::int64_t>(n);
  Real sum = 0, size = 0, weight = 0, weight2 = 0;
  bool is_finite = true;
  cells::KeyRange<T> range;
  for (std::size_t i = 0; i < n; ++i) {
    const Real x = sample.values[i], w = sample.weights.empty() ? 1 : sample.weights[i];
    is_finite = is_finite && std::isfinite(static_cast<double>(x));
    sum += w * x;
    size += w * std::fabs(x);
    weight += w;
    weight2 += w * w;
    range.template add<true>(reduce::order_key(sample.values[i]), sample.numbers[i]);
  }
  if constexpr (cells::has_extremes(S)) {
    is_exact = is_exact && range.min == m.range.min && range.max == m.range.max;
  }
  if constexpr (cells::has_indices(S)) {
    is_exact =
        is_exact && range.min_index == m.range.min_index && range.max_index == m.range.max_index;
  }
  check.exact = {is_exact ? 0.0 : 1.0, 0};
  if (!is_finite || n == 0) return check;
  constexpr double unit = 0x1p-53;
  const double steps = static_cast<double>(n + 64) * unit;
  const auto deviation = [&](Real value, Real reference, Real bound) {
    if (!std::isfinite(static_cast<double>(reference + bound))) {
      check.overflows = true;
      return reduce::Deviation{};
    }
    return reduce::Deviation{static_cast<double>(std::fabs(value - reference)),
                             static_cast<double>(bound)};
  };
  if constexpr (std::integral<T> && !cells::is_weighted(S)) {
    reduce::Int128 exact = 0;
    for (const T x : sample.values) exact += x;
    check.sum = {exact == m.sum ? 0.0 : 1.0, 0};
  } else {
    check.sum = deviation(m.sum, sum, 2 * steps * size);
  }
  if constexpr (cells::is_weighted(S)) {
    check.weight = deviation(m.weight, weight, 2 * steps * weight);
    check.weight =
        reduce::Deviation::worse(check.weight, deviation(m.weight2, weight2, 2 * steps * weight2));
  }
  if constexpr (cells::has_squares(S)) {
    if (weight == 0) return check;
    const Real first = sample.values[0];
    Real offset = 0;  // of the mean
    for (std::size_t i = 0; i < n; ++i) {
      offset +=
          (sample.weights.empty() ? 1 : sample.weights[i]) / weight * (sample.values[i] - first);
    }
    Real m2 = 0, m3 = 0, m4 = 0, largest = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const Real w = sample.weights.empty() ? 1 : sample.weights[i];
      const Real d = (sample.values[i] - first) - offset;
      m2 += w * d * d;
      m3 += d * d * d;
      m4 += d * d * d * d;
      largest = std::max(largest, std::fabs(d));
    }
    const Real spread = 4 * weight * largest * largest;
    check.m2 = deviation(m.m2, m2, 8 * steps * spread);
    if constexpr (cells::has_powers(S)) {
      check.m3 = deviation(m.m3, m3, 64 * steps * spread * largest);
      check.m4 = deviation(m.m4, m4, 256 * steps * spread * largest * largest);
      check.magnitude = deviation(m.magnitude, size, 2 * steps * size);
    }
  }
  return check;
}

}  // namespace shardstream::workloads
