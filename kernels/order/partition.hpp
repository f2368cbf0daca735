// Counts the elements in each of a few intervals of keys, and collects the keys of some intervals.
// An order statistic is known to be in one interval after one pass over the data, and the keys of
// a narrow interval are few.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/kernel.hpp"
#include "kernels/order/key.hpp"

namespace shardstream::order {

inline constexpr unsigned max_intervals = 1024, locator_cells = 4096;
/// The bit of an interval's code that asks for its keys, and the code of a cell with keys of
/// several intervals.
inline constexpr std::uint16_t collects = 0x8000, several = 0xffff;

/// Maps elements to cells: never to a lower cell for a larger key. So a table has the interval of
/// most elements. The cells are equal steps between two elements. All elements below have the first
/// cell, and almost all above have the last one, so that these have one interval each. NaNs may
/// have any cell.
template <class T>
class Locator {
 public:
  Locator() = default;
  /// The cells are spread over the keys from `low` to `high`, which are not those of NaNs.
  Locator(Key<T> low, Key<T> high) {
    if constexpr (std::floating_point<T>) {
      constexpr T largest = std::numeric_limits<T>::max();
      const T base = std::clamp(value_of<T>(low), -largest, largest);
      const T width = std::clamp(value_of<T>(high), -largest, largest) - base;
      const T scale = static_cast<T>(locator_cells - 3) / width;
      if (scale > 0 && scale <= largest) base_ = base, step_ = scale;
    } else {
      base_ = low;
      while ((high - low) >> step_ >= locator_cells - 2) ++step_;
    }
  }

  constexpr unsigned operator()(T x) const {
    if constexpr (std::floating_point<T>) {
      const T place = (x - base_) * step_ + 1;
      // NaN fails the first comparison.
      if (!(place >= 1)) return 0;
      return place < locator_cells ? static_cast<unsigned>(static_cast<int>(place))
                                   : locator_cells - 1;
    } else {
      const Key<T> key = key_of(x), above = std::max(key, base_) - base_;
      const unsigned first = key < base_ ? 0 : 1;
      return static_cast<unsigned>(std::min<Key<T>>(above >> step_, locator_cells - 2)) + first;
    }
  }

  // For the same arithmetic on a GPU
  constexpr auto base() const { return base_; }
  constexpr auto step() const { return step_; }

 private:
  std::conditional_t<std::floating_point<T>, T, Key<T>> base_ = {};
  // Cells per unit, which give all finite numbers one cell; or a shift
  std::conditional_t<std::floating_point<T>, T, unsigned> step_ =
      std::numeric_limits<T>::denorm_min();
};

/// The intervals of a partition, in device memory. Interval i has the keys after those of interval
/// i - 1 up to last[i]. The last interval has all other keys.
template <class T>
struct PartitionTable {
  Key<T> last[max_intervals];         ///< beyond the last interval, the largest key
  std::uint16_t code[max_intervals];  ///< i, or i | collects
  /// The code of the interval of all keys in a cell; otherwise, and for cells with NaNs, `several`.
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
