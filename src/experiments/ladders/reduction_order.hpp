// The common part of the experiment `reduction-order` on GPUs and CPUs: its table, its sizes, its
// launches and the check of its results, which needs no GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/shard.hpp"
#include "experiments/bench.hpp"
#include "kernels/cells/cells.hpp"
#include "kernels/cells/row_units.hpp"
#include "kernels/cells/task_list.hpp"

namespace shardstream::experiments::ladders {

/// The experiment without a GPU.
Table reduction_order_on_host(Bench& bench);

/// Statistics of a row of elements in one order of additions.
struct Order {
  std::string name;  ///< "program", "row", or the name of the reference
  std::string type;  ///< of the elements
  cells::Quantities quantities;
  std::uint64_t bytes;  ///< of data
  std::uint64_t lanes = 0, unit = 0;
};

inline constexpr cells::Quantities extremes = cells::Quantity::extremes;
/// As a run computes the variance.
inline constexpr cells::Quantities squares = extremes | cells::Quantity::squares;

/// The table and its rows.
class Orders {
 public:
  Orders();
  /// Adds a row. The share is `yardstick`, in seconds, over the time of `timing`.
  void add(const Order& order, const Timing& timing, double yardstick, const std::string& remark);
  Table table() && { return std::move(rows_).table(); }

 private:
  Measurements rows_;
};

/// The launches for the units of a row, which leave the moments of each unit.
/// The elements are the bytes of the floats unit_number(0), unit_number(1), ... read as T (float,
/// double, std::int32_t, std::int64_t, std::uint8_t).
template <class T>
class RowOf {
 public:
  /// For a row of `count` elements. A kernel joins `joined` lanes before it writes them.
  RowOf(std::uint64_t count, const cells::RowUnits& size, cells::Quantities quantities,
        std::uint64_t joined);

  std::uint64_t units() const { return tasks_.count(); }
  /// The words of all moments, of lanes and of units.
  std::uint64_t lane_words() const { return words_ * units() * parts(); }
  std::uint64_t unit_words() const { return words_ * units(); }

  /// Lists that kernels need in device memory.
  const cells::TaskList& tasks() const { return tasks_; }

  /// Adds the elements of all units to their lanes. `lanes` has lane_words() words, and the lists
  /// are copies of those above.
  cells::AccumulateArgs<T> add(const T* elements, const std::uint64_t* blocks,
                               const std::uint64_t* tasks, const cells::DenseTask* dense,
                               std::uint64_t* lanes) const;
  /// Joins the lanes of each unit. `moments` has unit_words() words.
  cells::JoinArgs<T> join(std::uint64_t* lanes, std::uint64_t* moments) const;

  /// Whether the moments of some units, spread evenly from the first to the last, are right, and
  /// all elements were counted.
  bool are_right(std::vector<std::uint64_t>& moments) const;
  /// The sum of all elements.
  double sum(std::vector<std::uint64_t>& moments) const;

 private:
  std::uint64_t parts() const { return layout_.lanes / joined_; }
  Range unit(std::uint64_t number) const {
    return intersection({0, count_}, {number * unit_, unit_});
  }

  cells::Layout layout_;
  cells::Quantities quantities_;
  std::uint64_t count_, unit_, joined_, words_;
  cells::TaskList tasks_{1};
  cells::TaskSpan span_;
};

/// Floats to add: the option if it is given, else `usual`, halved until it fits; a note says so.
/// Throws UsageError if the option is more than `max`.
std::uint64_t floats_to_add(Bench& bench, std::uint64_t usual, std::uint64_t max);

}  // namespace shardstream::experiments::ladders
