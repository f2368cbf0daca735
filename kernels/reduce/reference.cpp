#include "kernels/reduce/reference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace shardstream::reduce {
namespace {

constexpr long double unit_roundoff = std::numeric_limits<double>::epsilon() / 2;

/// A running sum with Neumaier's correction ("Rundungsfehleranalyse einiger Verfahren zur Summation
/// endlicher Summen", 1974).
class CompensatedSum {
 public:
  void add(long double x) {
    const long double sum = sum_ + x;
    correction_ += std::fabs(sum_) >= std::fabs(x) ? (sum_ - sum) + x : (x - sum) + sum_;
    sum_ = sum;
  }
  // With infinities the plain sum is right, but the correction is NaN.
  long double value() const { return std::isfinite(sum_) ? sum_ + correction_ : sum_; }

 private:
  long double sum_ = 0, correction_ = 0;
};

/// Whether x is NaN, or an integer that stands for a missing value.
template <class T>
bool missing(T x, Want want) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
  return want.skip_missing && x == static_cast<T>(want.marker);
}

template <class T>
PartialOf<T> exact_part(const T* x, std::uint64_t count, std::int64_t first, Want want) {
  PartialOf<T> exact;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto index = first + static_cast<std::int64_t>(i);
    if (missing(x[i], want)) {
      exact.missing += 1;
      if (exact.first_missing == no_index) exact.first_missing = index;
      if (!want.skip_missing) exact.count += 1;
      continue;
    }
    exact.count += 1;
    if constexpr (std::integral<T>) exact.sum += x[i];
    const auto value = static_cast<Extreme<T>>(x[i]);
    if (exact.min_index == no_index || value < exact.min) {
      exact.min = value, exact.min_index = index;
    }
    if (exact.max_index == no_index || exact.max < value) {
      exact.max = value, exact.max_index = index;
    }
  }
  return exact;
}

/// The sum of squared deviations of `counted` integers from their mean sum / counted. The integer
/// part of the mean is subtracted first and exactly, so only small numbers are rounded.
template <std::integral T>
long double squares_about_mean(const T* x, std::uint64_t count, Int128 sum, std::int64_t counted,
                               Want want) {
  const Int128 whole = sum / counted;
  const long double fraction =
      static_cast<long double>(sum % counted) / static_cast<long double>(counted);
  CompensatedSum m2;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (missing(x[i], want)) continue;
    const long double delta = static_cast<long double>(x[i] - whole) - fraction;
    m2.add(delta * delta);
  }
  return m2.value();
}

/// `exact` counts at least one value.
template <class T>
Reference reference(const T* x, std::uint64_t count, const PartialOf<T>& exact, Want want) {
  const auto skip = [&](T value) { return want.skip_missing && missing(value, want); };
  CompensatedSum sum, magnitude, m2;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (skip(x[i])) continue;
    sum.add(static_cast<long double>(x[i]));
    const long double size = std::fabs(static_cast<long double>(x[i]));
    if (std::isfinite(size)) magnitude.add(size);
  }
  if constexpr (std::integral<T>) {
    const long double squares =
        want.variance ? squares_about_mean(x, count, exact.sum, exact.count, want) : 0;
    return {sum.value(), magnitude.value(), squares};
  }
  if (!want.variance) return {sum.value(), magnitude.value(), 0};
  // Deviations from an element have the digits of those from the mean, which is rounded.
  std::uint64_t first = 0;
  while (skip(x[first])) ++first;
  const auto from_first = [&](T value) {
    return static_cast<long double>(value) - static_cast<long double>(x[first]);
  };
  CompensatedSum offset;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!skip(x[i])) offset.add(from_first(x[i]));
  }
  const long double mean = offset.value() / static_cast<long double>(exact.count);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (skip(x[i])) continue;
    const long double delta = from_first(x[i]) - mean;
    m2.add(delta * delta);
  }
  return {sum.value(), magnitude.value(), m2.value()};
}

Deviation deviation(double got, long double wanted, long double bound) {
  if (std::isnan(got) && std::isnan(wanted)) return {};
  if (got == static_cast<double>(wanted)) return {0, static_cast<double>(bound)};
  const auto error = static_cast<double>(std::fabs(static_cast<long double>(got) - wanted));
  // If only one of them is NaN or infinite, the deviation exceeds any bound.
  if (!std::isfinite(error)) return {std::numeric_limits<double>::infinity(), 0};
  return {error, static_cast<double>(bound)};
}

/// The deviation of a sum. If partial sums may have left the range of double, the sum may be
/// infinite or NaN, and only a finite sum can be checked.
template <class T>
Deviation check_sum(const PartialOf<T>& partial, const PartialOf<T>& exact, const Reference& wanted,
                    long double additions) {
  if constexpr (std::integral<T>) {
    const Int128 difference = partial.sum - exact.sum;
    return {std::fabs(to_double(difference)), 0};
  } else {
    const bool overflows = wanted.magnitude > std::numeric_limits<double>::max();
    if (overflows && !std::isfinite(partial.sum)) return {};
    return deviation(partial.sum, wanted.sum, additions * unit_roundoff * wanted.magnitude);
  }
}

/// The deviation of m2, which may be infinite if its reference is near the end of double's range.
/// Deviations are taken from a rounded mean, and their sum corrects that, so that the error of the
/// mean only adds to the squares that are rounded. It is the error of the sum; for integers, whose
/// sum is exact, it is that of the division. Squares that are subnormal are rounded to a multiple
/// of the smallest number.
template <class T>
Deviation check_m2(const PartialOf<T>& partial, const Reference& wanted, std::int64_t count,
                   long double additions) {
  if (!std::isfinite(to_double(partial.sum))) {
    return std::isfinite(partial.m2) ? Deviation{1, 0} : Deviation{};
  }
  if (wanted.m2 > std::numeric_limits<double>::max() / 2 && !std::isfinite(partial.m2)) return {};
  const auto n = static_cast<long double>(count);
  const long double mean = std::fabs(wanted.sum) / n;
  const long double mean_error = std::integral<T>
                                     ? 3 * unit_roundoff * (mean < whole_from ? mean : 1)
                                     : (additions + 1) * unit_roundoff * wanted.magnitude / n;
  const long double squares = wanted.m2 + n * mean_error * mean_error;
  constexpr long double smallest = std::numeric_limits<double>::denorm_min();
  return deviation(partial.m2, wanted.m2,
                   4 * (additions + 8) * unit_roundoff * squares + (n + 4) * smallest);
}

Deviation scaled(const Deviation& deviation, double factor) {
  return {deviation.error * factor, deviation.bound * factor};
}

/// The deviation of the square root of m2 / n. A deviation d of v changes sqrt(v) by at most
/// sqrt(v) - sqrt(v - d).
Deviation root(const Deviation& variance, double value) {
  if (!std::isfinite(value) || !variance.passes()) return variance;
  const auto moved = [&](double by) {
    return std::sqrt(value) - std::sqrt(std::max(0.0, value - by));
  };
  const double rounding = 2 * static_cast<double>(unit_roundoff) * std::sqrt(value);
  return {std::min(moved(variance.error), moved(variance.bound)), moved(variance.bound) + rounding};
}

}  // namespace

Deviation Deviation::worse(const Deviation& a, const Deviation& b) {
  // Compares a.error / a.bound with b.error / b.bound, without a division by zero.
  if (a.passes() != b.passes()) return a.passes() ? b : a;
  const double left = a.error * b.bound, right = b.error * a.bound;
  if (left != right) return left > right ? a : b;
  return a.bound >= b.bound ? a : b;
}

LeafCheck LeafCheck::worse(const LeafCheck& a, const LeafCheck& b) {
  return {Deviation::worse(a.exact, b.exact), Deviation::worse(a.sum, b.sum),
          Deviation::worse(a.mean, b.mean), Deviation::worse(a.variance, b.variance),
          Deviation::worse(a.stddev, b.stddev)};
}

template <class T>
LeafCheck check_leaf(const T* elements, std::uint64_t count, std::int64_t first, Want want,
                     const PartialOf<T>& partial) {
  const PartialOf<T> exact = exact_part(elements, count, first, want);
  // Each value takes part in the additions of its lane and of the tree; two more for conversions.
  const long double additions = leaf_elements / lanes + std::countr_zero(lanes) + 2;

  bool same = partial.count == exact.count && partial.missing == exact.missing &&
              partial.first_missing == exact.first_missing;
  if (want.extremes) {
    same = same && partial.min_index == exact.min_index && partial.max_index == exact.max_index;
    if (exact.min_index != no_index) {
      same = same && partial.min == exact.min && partial.max == exact.max;
    }
  }
  if (exact.count == 0) same = same && partial.sum == 0;
  LeafCheck check;
  check.exact = {same ? 0.0 : 1.0, 0.0};
  if (exact.count == 0) return check;
  const Reference wanted = reference<T>(elements, count, exact, want);
  const double each = 1 / static_cast<double>(exact.count);
  check.sum = check_sum<T>(partial, exact, wanted, additions);
  check.mean = scaled(check.sum, each);
  if (want.variance) {
    check.variance = scaled(check_m2<T>(partial, wanted, exact.count, additions), each);
    check.stddev = root(check.variance, static_cast<double>(wanted.m2) * each);
  }
  return check;
}

template LeafCheck check_leaf(const float*, std::uint64_t, std::int64_t, Want,
                              const PartialOf<float>&);
template LeafCheck check_leaf(const double*, std::uint64_t, std::int64_t, Want,
                              const PartialOf<double>&);
template LeafCheck check_leaf(const std::int32_t*, std::uint64_t, std::int64_t, Want,
                              const PartialOf<std::int32_t>&);
template LeafCheck check_leaf(const std::int64_t*, std::uint64_t, std::int64_t, Want,
                              const PartialOf<std::int64_t>&);
template LeafCheck check_leaf(const std::int8_t*, std::uint64_t, std::int64_t, Want,
                              const PartialOf<std::int8_t>&);
template LeafCheck check_leaf(const std::uint8_t*, std::uint64_t, std::int64_t, Want,
                              const PartialOf<std::uint8_t>&);
template LeafCheck check_leaf(const std::uint64_t*, std::uint64_t, std::int64_t, Want,
                              const PartialOf<std::uint64_t>&);

}  // namespace shardstream::reduce
