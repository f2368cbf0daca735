// Equal bins of a range, and the bin of an element: the same on every backend, and the same as in
// numpy.histogram of the elements as doubles.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>

namespace shardstream::workloads::histogram {

/// Bin i holds edge(i) <= x < edge(i + 1), compared exactly. The last bin holds `high`, too.
struct Bins {
  static constexpr std::uint32_t max_count = std::uint32_t{1} << 30;

  double low, high;     ///< finite, and so is high - low > 0
  std::uint32_t count;  ///< 1 to max_count

  constexpr double step() const { return (high - low) / count; }
  /// The edges of numpy.linspace(low, high, count + 1).
  constexpr double edge(std::uint32_t i) const { return i == count ? high : i * step() + low; }
};

/// Elements in no bin are counted behind the bins, in this order.
inline constexpr std::uint32_t below = 0, above = 1, nan = 2, outside_counters = 3;

/// x >= bound, exactly. `bound` is not NaN.
template <class T>
constexpr bool at_least(T x, double bound) {
  if constexpr (std::integral<T> && sizeof(T) == 8) {
    constexpr double first = std::signed_integral<T> ? -0x1p63 : 0, end = first + 0x1p64;
    if (bound >= end) return false;
    if (bound < first) return true;
    const auto whole = static_cast<T>(bound);  // rounded towards 0
    return x >= whole + static_cast<T>(static_cast<double>(whole) < bound);
  } else {
    return static_cast<double>(x) >= bound;
  }
}

/// The elements of a type that are in a range: first <= x <= last. If there are none, first > last.
template <class T>
struct Within {
  T first = 1, last = 0;

  static Within of(double low, double high) {
    using Limits = std::numeric_limits<T>;
    const auto lowest = static_cast<double>(Limits::lowest());
    const auto max = static_cast<double>(Limits::max());
    if (!at_least(Limits::max(), low) || high < lowest) return {};
    T first = Limits::lowest(), last = Limits::max();
    if constexpr (std::integral<T>) {
      if (low > lowest) first = static_cast<T>(std::ceil(low));
      if (high < max) last = static_cast<T>(std::floor(high));
    } else {
      if (low > lowest) first = static_cast<T>(low);
      if (static_cast<double>(first) < low) first = std::nextafter(first, Limits::infinity());
      if (high < max) last = static_cast<T>(high);
      if (static_cast<double>(last) > high) last = std::nextafter(last, -Limits::infinity());
    }
    return {first, last};
  }
};

/// Finds the bins of elements. It computes the number of the nearest edge and compares the element
/// with this edge. Rounding errors can make the number wrong only if bins are narrow compared with
/// the limits of the range; then it searches the edges by bisection.
template <class T>
class Locator {
 public:
  explicit Locator(const Bins& bins)
      : low_(bins.low),
        step_(bins.step()),
        count_(bins.count),
        within_(Within<T>::of(bins.low, bins.high)) {
    // Together, the number and the edges are wrong by at most (count * 2^-50 + size * 2^-51) bins.
    const double size = std::max(std::abs(bins.low), std::abs(bins.high)) / step_;
    computes_ = size < 0x1p48 && step_ > 0x1p-1000 && step_ < 0x1p1000;
    if (computes_) steps_per_unit_ = 1 / step_;
  }

  /// The number of bins.
  constexpr std::uint32_t count() const { return count_; }

  /// Whether low <= x <= high. False for NaN.
  constexpr bool in_range(T x) const { return x >= within_.first && x <= within_.last; }

  /// Whether x < low. False for NaN.
  constexpr bool is_below(T x) const { return x == x && !at_least(x, low_); }

  /// The bin of an x in the range; anything for another x.
  constexpr std::uint32_t operator()(T x) const { return computes_ ? compute(x) : search(x); }

  /// The counter of an x outside the range.
  constexpr std::uint32_t outside(T x) const {
    return count_ + (x != x ? nan : is_below(x) ? below : above);
  }

 private:
  constexpr std::uint32_t compute(T x) const {
    // Adding it rounds a number to an integer, which is in the low bits of the sum.
    constexpr double shift = 0x1.8p52;
    const double shifted = (static_cast<double>(x) - low_) * steps_per_unit_ + shift;
    const auto edge = static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(shifted));
    const bool before = !at_least(x, (shifted - shift) * step_ + low_);
    return std::min(edge - static_cast<std::uint32_t>(before), count_ - 1);
  }

  constexpr std::uint32_t search(T x) const {
    std::uint32_t bin = 0, end = count_;
    while (end - bin > 1) {
      const std::uint32_t middle = bin + (end - bin) / 2;
      (at_least(x, middle * step_ + low_) ? bin : end) = middle;
    }
    return bin;
  }

  double low_, step_, steps_per_unit_ = 0;
  std::uint32_t count_;
  bool computes_;
  Within<T> within_;
};

/// The bins of bytes: one for each value, whatever the range is. The counts of the values give the
/// counts of any bins.
template <class T>
struct ByteValues {
  explicit ByteValues(const Bins&) {}
  constexpr std::uint32_t count() const { return 256; }
  constexpr bool in_range(T) const { return true; }
  constexpr bool is_below(T) const { return false; }
  constexpr std::uint32_t outside(T) const { return count() + above; }
  constexpr std::uint32_t operator()(T x) const {
    return static_cast<std::uint32_t>(x - std::numeric_limits<T>::min());
  }
};

}  // namespace shardstream::workloads::histogram
