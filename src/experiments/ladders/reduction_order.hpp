// The common part of the experiment `reduction-order` on GPUs and CPUs: its table, its sizes and
// the check of its results, which needs no GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/bench.hpp"
#include "kernels/reduce/reduce.hpp"

namespace shardstream::experiments::ladders {

/// The experiment without a GPU: leaves on CPUs.
Table reduction_order_on_host(Bench& bench);

/// One order of summation, with the columns of its row.
struct Order {
  std::string name;  ///< "program", "leaves", or the name of the reference
  std::string type;  ///< of the elements
  reduce::Want want;
  std::uint64_t bytes;  ///< of data
  unsigned lanes = 0, leaf = 0, in_flight = 0;
};

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

/// Floats to add: the option if it is given, else `usual`, halved until it fits; a note says so.
/// Throws UsageError if the option is more than `max`.
std::uint64_t floats_to_add(Bench& bench, std::uint64_t usual, std::uint64_t max);

/// The exact sum of unit_number() over the first `count` indices, in units of 2^-24. Uses all
/// cores.
std::uint64_t exact_units(std::uint64_t count);

/// Whether `partial` is right for the leaf of `count` elements from `first` on. The elements are
/// the bytes of the floats unit_number(0), unit_number(1), ... read as T (float, double,
/// std::int32_t, std::int64_t, std::uint8_t). The error must be within the bounds of
/// kernels/reduce/reference.hpp.
template <class T>
bool is_leaf_right(std::uint64_t first, unsigned count, reduce::Want want,
                   const reduce::PartialOf<T>& partial);

/// The leaves to check, evenly spread from the first to the last. The reference is slow, so they
/// are few.
std::vector<std::uint64_t> leaves_to_check(std::uint64_t leaves);

}  // namespace shardstream::experiments::ladders
