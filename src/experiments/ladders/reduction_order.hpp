// Shared by the GPU and host parts of the experiment `reduction-order`: its table, its sizes and
// the check of its answers, which works without a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/bench.hpp"
#include "kernels/reduce/reduce.hpp"

namespace shardstream::experiments::ladders {

/// One way to add, as the table names it.
struct Order {
  std::string name;  ///< "program", "leaves", or what the others are compared with
  std::string type;  ///< of the elements
  reduce::Want want;
  std::uint64_t bytes;  ///< of data
  unsigned lanes = 0, leaf = 0, in_flight = 0;
};

/// The table and its rows.
class Orders {
 public:
  Orders();
  /// Adds a row; `yardstick` is the time in seconds of which the share is taken.
  void add(const Order& order, const Timing& timing, double yardstick, const std::string& remark);
  Table table() && { return std::move(rows_).table(); }

 private:
  Measurements rows_;
};

/// Floats to add: the option if it is given, else `usual`, halved until it fits; a note says so.
/// Throws UsageError if the option is more than `max`.
std::uint64_t floats_to_add(Bench& bench, std::uint64_t usual, std::uint64_t max);

/// The sum of unit_number() over the first `count` indices, exact, in units of 2^-24. Uses all
/// cores.
std::uint64_t exact_units(std::uint64_t count);

/// Whether `partial` is right for the leaf of `count` elements from `first` on; elements are the
/// bytes of the floats unit_number(0), unit_number(1) ... read as T (float, double, std::int32_t,
/// std::int64_t, std::uint8_t). The error may be what kernels/reduce/reference.hpp allows.
template <class T>
bool is_leaf_right(std::uint64_t first, unsigned count, reduce::Want want,
                   const reduce::PartialOf<T>& partial);

/// Leaves to check, from the first to the last: evenly spread, since the reference is slow.
std::vector<std::uint64_t> leaves_to_check(std::uint64_t leaves);

}  // namespace shardstream::experiments::ladders
