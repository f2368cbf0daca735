// Counts the elements in each of a few intervals of keys, and collects the keys of some intervals.
// An order statistic is known to be in one interval after one pass over the data, and the keys of
// a narrow interval are few.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/kernel.hpp"
#include "kernels/order/key.hpp"

namespace shardstream::order {

inline constexpr unsigned max_intervals = 1024, locator_cells = 16384;
/// A host is faster with fewer cells, whose table fits into its L1 cache.
inline constexpr unsigned host_locator_cells = 4096;
/// The bit of an interval's code that asks for its keys, and the code of a cell with keys of
/// several intervals.
inline constexpr std::uint16_t collects = 0x8000, several = 0xffff;

/// The cells of a locator are equal steps of the value, which only floats have, or of the key.
enum class Steps { of_value, of_key };

/// Maps elements to cells: never to a lower cell for a larger key. So a table has the interval of
/// most elements. The cells lie between `low`, the last key of the first interval, and `high`, the
/// first key of the last one; neither is that of a NaN. All elements below have the first cell, and
/// almost all above have the last ones, so that these have one interval each. NaNs may have any
/// cell. `cells` is about the number of cells up to `high`, at most locator_cells.
template <class T>
class Locator {
 public:
  /// All finite floats have one cell.
  Locator() = default;

  static Locator of_values(Key<T> low, Key<T> high,
                           unsigned cells = locator_cells) requires std::floating_point<T> {
    constexpr T largest = std::numeric_limits<T>::max();
    const T base = std::clamp(value_of<T>(low), -largest, largest);
    const T width = std::clamp(value_of<T>(high), -largest, largest) - base;
    const T scale = static_cast<T>(cells - 3) / width;
    Locator made;
    if (scale > 0 && scale <= largest) made.base_ = base, made.scale_ = scale;
    return made;
  }

  /// For values of all magnitudes. The key `frequent`, from `low` to `high`, has its own cell,
  /// however many keys a cell has, unless one of the first steps would begin below key 0.
  static Locator of_keys(Key<T> low, Key<T> high, Key<T> frequent, unsigned cells = locator_cells) {
    Locator made;
    made.steps_ = Steps::of_key;
    for (;; ++made.shift_) {
      // One of the steps ends with `frequent`, and the first one ends with `low` or before.
      const Key<T> distance = frequent - low, mask = (Key<T>{1} << made.shift_) - 1;
      const Key<T> wanted = (distance >> made.shift_) + ((distance & mask) != 0 ? 2 : 1);
      const Key<T> steps = std::min<Key<T>>(wanted, frequent >> made.shift_);
      made.first_ = frequent - (steps << made.shift_) + 1;
      made.divider_ = steps > 0 ? frequent : made.first_;
      const Key<T> width = std::max(high, made.first_) - made.first_;
      if (width >> made.shift_ < cells - 2) return made;
    }
  }

  constexpr Steps steps() const { return steps_; }
  constexpr unsigned operator()(T x) const {
    if constexpr (std::floating_point<T>) {
      if (steps_ == Steps::of_value) return by_value(x);
    }
    return by_key(key_of(x));
  }
  constexpr unsigned by_value(T x) const requires std::floating_point<T> {
    const T place = (x - base_) * scale_ + 1;
    // NaN fails the first comparison.
    if (!(place >= 1)) return 0;
    return place < locator_cells ? static_cast<unsigned>(static_cast<int>(place))
                                 : locator_cells - 1;
  }
  constexpr unsigned by_key(Key<T> key) const {
    const Key<T> above = std::max(key, first_) - first_;
    auto cell = static_cast<unsigned>(std::min<Key<T>>(above >> shift_, locator_cells - 2));
    if (key >= divider_) ++cell;
    return cell;
  }

  /// The distance of two keys in cells.
  double distance(Key<T> low, Key<T> high) const {
    if (steps_ == Steps::of_key) return std::ldexp(static_cast<double>(high - low), -shift_);
    return (static_cast<double>(value_of<T>(high)) - static_cast<double>(value_of<T>(low))) *
           static_cast<double>(scale_);
  }

  // For the same arithmetic on a GPU
  constexpr T base() const { return base_; }
  constexpr T scale() const { return scale_; }

 private:
  Steps steps_ = std::floating_point<T> ? Steps::of_value : Steps::of_key;
  int shift_ = 0;
  Key<T> first_ = 0, divider_ = 0;  // the first step begins; a further cell begins
  T base_ = {}, scale_ = std::numeric_limits<T>::denorm_min();  // in cells per unit
};

/// The intervals of a partition, in device memory. Interval i has the keys after those of interval
/// i - 1 up to last[i]. The last interval has all other keys, and all NaNs.
template <class T>
struct PartitionTable {
  Key<T> last[max_intervals];         ///< beyond the last interval, the largest key
  std::uint16_t code[max_intervals];  ///< i, or i | collects
  /// The code of the interval of all keys in a cell, without those of NaNs; otherwise `several`.
  std::uint16_t cell[locator_cells];
};

/// Pointers are to device memory. Kernels that may run at the same time need separate counters.
template <class T>
struct PartitionArgs {
  const T* elements;  ///< aligned to 16 bytes
  std::uint64_t count;
  const PartitionTable<T>* table;
  Locator<T> locator;
  unsigned intervals;        ///< 1 to max_intervals
  std::uint64_t* counts;     ///< the number of elements in each interval is added to it
  Key<T>* keys;              ///< out: the collected keys, in any order
  std::uint64_t capacity;    ///< of `keys`; further keys are only counted
  std::uint64_t* collected;  ///< the number of collected keys; increases, and may exceed capacity
};

template <class T>
Kernel<PartitionArgs<T>> partition_kernel();

/// The launcher. It enqueues one kernel and does not wait.
namespace cuda {
template <class T>
void partition(const PartitionArgs<T>& args, CudaStream stream);
}  // namespace cuda

/// An interval of a partition: the keys after those of the interval before, up to `last`.
template <class T>
struct Interval {
  Key<T> last;
  bool collects;
};

/// Fills in the table. There are 1 to max_intervals intervals in order, and the last one ends with
/// the largest key.
template <class T>
void fill_table(const std::vector<Interval<T>>& intervals, const Locator<T>& locator,
                PartitionTable<T>& table);

/// The number of steps of a search among the intervals.
constexpr unsigned search_steps(unsigned intervals) {
  unsigned steps = 0;
  while (1U << steps < intervals) ++steps;
  return steps;
}

/// The interval of a key. `last` has 2^steps - 1 valid entries.
template <class K>
constexpr unsigned interval_of(const K* last, unsigned steps, K key) {
  unsigned found = 0;
  for (unsigned step = 1U << steps >> 1; step > 0; step /= 2) {
    if (last[found + step - 1] < key) found += step;
  }
  return found;
}

}  // namespace shardstream::order
