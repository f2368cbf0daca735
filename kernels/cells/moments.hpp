// The statistics of one cell: accumulated value by value, turned into central moments, and joined.
// Both backends use these functions, so they give the same bits.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/data/missing.hpp"
#include "kernels/reduce/partial.hpp"

namespace shardstream::cells {

using reduce::Extreme;
using reduce::Int128;

/// Sets of statistics. Each kernel is compiled for one of them; all have the count and the sum.
enum class Set : std::uint8_t { sum, extremes, squares, all, weighted };

/// The parts of a set. `squares` has the extremes, too.
constexpr bool has_extremes(Set set) {
  return set >= Set::extremes;
}
constexpr bool has_squares(Set set) {
  return set >= Set::squares;
}
/// The indices of extremes.
constexpr bool has_indices(Set set) {
  return set >= Set::all;
}
/// Third and fourth powers, and the sum of absolute values.
constexpr bool has_powers(Set set) {
  return set == Set::all;
}
constexpr bool is_weighted(Set set) {
  return set == Set::weighted;
}

/// Values that do not count.
enum class Skip : std::uint8_t {
  none,
  missing,  ///< those that a conversion has found missing
  nans      ///< missing values and all NaNs
};

/// Whether a value does not count.
template <class T>
constexpr bool is_skipped(T x, Skip skip, T marker) {
  if constexpr (std::floating_point<T>) {
    return x != x && (skip == Skip::nans || is_missing_element(x, marker));
  } else {
    return x == marker;
  }
}

/// The type of a sum: exact for integers without weights.
template <class T, Set S>
using SumOf = std::conditional_t<is_weighted(S), double, reduce::Sum<T>>;

/// The 64-bit words that hold a sum, and those of Moments or an Accumulator in memory.
template <class T, Set S>
inline constexpr unsigned sum_words = sizeof(SumOf<T, S>) / sizeof(std::uint64_t);
template <class T, Set S>
inline constexpr unsigned words_of = 1 + sum_words<T, S> + (has_squares(S) ? 3 : 0) +
                                     (has_extremes(S) ? 2 : 0) + (has_indices(S) ? 2 : 0) +
                                     (has_powers(S) ? 3 : 0) + (is_weighted(S) ? 3 : 0);

/// Reads and writes values as words whose addresses are `pitch` words apart. Smaller integers are
/// widened.
class Words {
 public:
  constexpr Words(std::uint64_t* first, std::uint64_t pitch) : next_(first), pitch_(pitch) {}

  template <class V>
  constexpr void load(V& value) {
    if constexpr (sizeof(V) == 16) {
      std::uint64_t low = 0, high = 0;
      load(low);
      load(high);
      value = static_cast<V>((static_cast<Int128>(high) << 64) | low);
    } else {
      if constexpr (sizeof(V) == 8) {
        value = std::bit_cast<V>(*next_);
      } else {
        value = static_cast<V>(*next_);
      }
      next_ += pitch_;
    }
  }
  template <class V>
  constexpr void store(V value) {
    if constexpr (sizeof(V) == 16) {
      store(static_cast<std::uint64_t>(value));
      store(static_cast<std::uint64_t>(value >> 64));
    } else {
      if constexpr (sizeof(V) == 8) {
        *next_ = std::bit_cast<std::uint64_t>(value);
      } else {
        *next_ = static_cast<std::uint64_t>(value);
      }
      next_ += pitch_;
    }
  }

 private:
  std::uint64_t* next_;
  std::uint64_t pitch_;
};

/// The number of values that x adds to the count if some values do not count: a NaN makes results
/// NaN, but is no value.
template <class T>
constexpr std::int64_t counted(T x) {
  if constexpr (std::floating_point<T>) return x == x;
  return 1;
}

/// The extremes of values as extreme keys. NaNs with the sign bit are below all other values, and
/// all other NaNs above them, so one of the two extremes is NaN if a value is. Without values,
/// `min` is the highest key, and `max` the lowest one.
template <class T>
struct KeyRange {
  using Key = reduce::OrderKey<T>;
  Key min = std::numeric_limits<Key>::max(), max = std::numeric_limits<Key>::min();
  /// The lowest index of each, or no_index.
  std::int64_t min_index = reduce::no_index, max_index = reduce::no_index;

  template <bool Indices>
  constexpr void add(Key key, std::int64_t index) {
    if constexpr (Indices) {
      if (is_better(key < min, key == min, index, min_index)) min = key, min_index = index;
      if (is_better(max < key, key == max, index, max_index)) max = key, max_index = index;
    } else {
      min = key < min ? key : min;
      max = max < key ? key : max;
    }
  }
  template <bool Indices>
  constexpr void add(const KeyRange& other) {
    if constexpr (Indices) {
      if (is_better(other.min < min, other.min == min, other.min_index, min_index)) {
        min = other.min, min_index = other.min_index;
      }
      if (is_better(max < other.max, max == other.max, other.max_index, max_index)) {
        max = other.max, max_index = other.max_index;
      }
    } else {
      min = other.min < min ? other.min : min;
      max = max < other.max ? other.max : max;
    }
  }

 private:
  static constexpr bool is_better(bool is_beyond, bool is_equal, std::int64_t index,
                                  std::int64_t known) {
    return is_beyond ||
           (is_equal && index != reduce::no_index && (known == reduce::no_index || index < known));
  }
};

/// x - shift, rounded once.
template <class T>
constexpr double shifted(T x, Extreme<T> shift) {
  if constexpr (reduce::exceeds_double<T>) {
    return reduce::deviation(x, reduce::Mean<Extreme<T>>{shift, 0});
  } else {
    return static_cast<double>(x) - static_cast<double>(shift);
  }
}

/// |x|, rounded to double.
template <class T>
constexpr double absolute(T x) {
  const auto value = static_cast<double>(x);
  return value < 0 ? -value : value;
}

/// Statistics of some values. `T` is the type of the values.
template <class T, Set S>
struct Moments {
  std::int64_t count = 0;  ///< of values
  SumOf<T, S> sum = 0;     ///< of values; with weights, of their products with the weights
  /// The mean is shift + offset. Two parts keep the digits of deviations that are small beside it.
  Extreme<T> shift = 0;
  double offset = 0;
  double m2 = 0;                   ///< of squared deviations from the mean, times the weights
  double m3 = 0, m4 = 0;           ///< of their third and fourth powers
  double magnitude = 0;            ///< sum of absolute values
  KeyRange<T> range;               ///< of values
  double weight = 0, weight2 = 0;  ///< sums of the weights and of their squares
  double largest_weight = 0;

  static constexpr Moments load(std::uint64_t* first, std::uint64_t pitch) {
    Moments m;
    visit(m, [words = Words(first, pitch)](auto& value) mutable { words.load(value); });
    return m;
  }
  constexpr void store(std::uint64_t* first, std::uint64_t pitch) const {
    visit(*this, [words = Words(first, pitch)](const auto& value) mutable { words.store(value); });
  }

  /// The mean of the values minus that of `other`.
  constexpr double mean_difference(const Moments& other) const {
    return shifted(shift, other.shift) + (offset - other.offset);
  }
  constexpr double total_weight() const {
    return is_weighted(S) ? weight : static_cast<double>(count);
  }

 private:
  template <class Self, class Use>
  static constexpr void visit(Self& self, Use use) {
    use(self.count);
    use(self.sum);
    if constexpr (has_squares(S)) use(self.shift), use(self.offset), use(self.m2);
    if constexpr (has_extremes(S)) use(self.range.min), use(self.range.max);
    if constexpr (has_indices(S)) use(self.range.min_index), use(self.range.max_index);
    if constexpr (has_powers(S)) use(self.m3), use(self.m4), use(self.magnitude);
    if constexpr (is_weighted(S)) use(self.weight), use(self.weight2), use(self.largest_weight);
  }
};

/// The statistics of the values of both. The moments follow Chan, Golub and LeVeque, "Updating
/// formulae and a pairwise algorithm for computing sample variances" (1979), and Pébay, "Formulas
/// for robust, one-pass parallel computation of covariances and arbitrary-order statistical
/// moments" (2008), equations 2.1 and those after it. The shift is that of the first value; with
/// weights, of the first one of the largest weight, as in Accumulator.
template <class T, Set S>
constexpr Moments<T, S> join(const Moments<T, S>& left, const Moments<T, S>& right) {
  Moments<T, S> both = left;
  both.count += right.count;
  both.sum += right.sum;
  both.range.template add<has_indices(S)>(right.range);
  both.magnitude += right.magnitude;
  both.weight += right.weight;
  both.weight2 += right.weight2;
  const bool right_weighs_more = left.largest_weight < right.largest_weight;
  if (right_weighs_more) both.largest_weight = right.largest_weight;
  if constexpr (has_squares(S)) {
    const double l = left.total_weight(), r = right.total_weight(), n = l + r;
    if (r == 0) return both;
    both.shift = right.shift;
    both.offset = right.offset;
    both.m2 = right.m2;
    both.m3 = right.m3;
    both.m4 = right.m4;
    if (l == 0) return both;
    const double delta = right.mean_difference(left), square = delta * delta, lr = l * (r / n);
    if (is_weighted(S) && right_weighs_more) {
      both.offset = right.offset - delta * (l / n);
    } else {
      both.shift = left.shift;
      both.offset = left.offset + delta * (r / n);
    }
    both.m2 = (left.m2 + right.m2) + square * lr;
    if constexpr (has_powers(S)) {
      both.m3 = (left.m3 + right.m3) + square * delta * (lr * ((l - r) / n)) +
                3 * delta * ((l * right.m2 - r * left.m2) / n);
      both.m4 = (left.m4 + right.m4) +
                square * square * (lr * ((l * l - l * r + r * r) / (n * n))) +
                6 * square * ((l / n) * (l / n) * right.m2 + (r / n) * (r / n) * left.m2) +
                4 * delta * ((l * right.m3 - r * left.m3) / n);
    }
  }
  return both;
}

/// Adds values one after another. Powers are those of the deviations from a value, the shift, so
/// that they do not lose the digits of a variance that is small beside the mean. It is the first
/// value; with weights, the first one of the largest weight, since a value that hardly counts can
/// be as far away from the mean as it likes.
template <class T, Set S>
struct Accumulator {
  std::int64_t count = 0;
  SumOf<T, S> sum = 0;
  Extreme<T> shift = 0;
  double s1 = 0, s2 = 0, s3 = 0, s4 = 0;  ///< powers of deviations, times the weights
  double magnitude = 0, weight = 0, weight2 = 0, largest_weight = 0;
  KeyRange<T> range;

  static constexpr Accumulator load(std::uint64_t* first, std::uint64_t pitch) {
    Accumulator a;
    visit(a, [words = Words(first, pitch)](auto& value) mutable { words.load(value); });
    return a;
  }
  constexpr void store(std::uint64_t* first, std::uint64_t pitch) const {
    visit(*this, [words = Words(first, pitch)](const auto& value) mutable { words.store(value); });
  }

  /// Adds an element, which counts as `values` values, 1 or 0. `index` and `w` are used only by
  /// sets that have them.
  constexpr void add(T x, std::int64_t index, double w, std::int64_t values = 1) {
    begin(x, values);
    add_begun(x, index, w);
  }
  /// Counts `values` values, the first of which is `x`. They are to be added with add_begun().
  constexpr void begin(T x, std::int64_t values) {
    if constexpr (has_squares(S) && !is_weighted(S)) {
      if (count == 0) shift = x;
    }
    count += values;
  }
  constexpr void add_begun(T x, std::int64_t index, double w) {
    if constexpr (has_extremes(S)) {
      range.template add<has_indices(S)>(reduce::extreme_key(x), index);
    }
    if constexpr (is_weighted(S)) {
      if (w > largest_weight) {
        move_shift(x);
        largest_weight = w;
      }
      sum += w * static_cast<double>(x);
      weight += w;
      weight2 += w * w;
    } else {
      sum += x;
    }
    if constexpr (has_squares(S)) {
      const double d = shifted(x, shift), wd = is_weighted(S) ? w * d : d;
      s1 += wd;
      s2 += wd * d;
      if constexpr (has_powers(S)) {
        s3 += d * d * d;
        s4 += d * d * (d * d);
        magnitude += absolute(x);
      }
    }
  }

  /// Makes `x` the shift.
  constexpr void move_shift(T x) {
    const double d = shifted(x, shift);
    s2 += d * (weight * d - 2 * s1);
    s1 -= weight * d;
    shift = x;
  }

  /// The powers about the mean, from those about the shift.
  constexpr Moments<T, S> moments() const {
    Moments<T, S> m;
    m.count = count;
    m.sum = sum;
    m.range = range;
    m.magnitude = magnitude;
    m.weight = weight;
    m.weight2 = weight2;
    m.largest_weight = largest_weight;
    if constexpr (has_squares(S)) {
      const double n = m.total_weight();
      if (n == 0) return m;
      const double mean = s1 / n;  // minus the shift
      m.shift = shift;
      m.offset = mean;
      const double m2 = s2 - s1 * mean;
      m.m2 = m2 < 0 ? 0 : m2;  // rounding alone can make it negative; NaN stays
      if constexpr (has_powers(S)) {
        m.m3 = s3 - 3 * mean * s2 + 2 * mean * mean * s1;
        m.m4 = s4 - 4 * mean * s3 + 6 * mean * mean * s2 - 3 * mean * mean * mean * s1;
      }
    }
    return m;
  }

  /// Calls use(number) for each number of the set, in the order of memory.
  template <class Self, class Use>
  static constexpr void visit(Self& self, Use use) {
    use(self.count);
    use(self.sum);
    if constexpr (has_squares(S)) use(self.shift), use(self.s1), use(self.s2);
    if constexpr (has_extremes(S)) use(self.range.min), use(self.range.max);
    if constexpr (has_indices(S)) use(self.range.min_index), use(self.range.max_index);
    if constexpr (has_powers(S)) use(self.s3), use(self.s4), use(self.magnitude);
    if constexpr (is_weighted(S)) use(self.weight), use(self.weight2), use(self.largest_weight);
  }
};

}  // namespace shardstream::cells
