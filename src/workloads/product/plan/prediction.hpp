// The predicted time of a product with a certain schedule. src/workloads/product/DESIGN.md
// describes the prediction.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/product/plan/schedule.hpp"

namespace shardstream::workloads::product {

/// Rates of one rank while all ranks work, for the prediction. All are above 0 and the same on
/// every rank.
struct Rates {
  /// Bytes/s of a rank's uploads, with the readers that fill the slots, and of its downloads.
  ///
  double link_up = 0, link_down = 0;
  double gather = 0;  ///< bytes/s that a rank receives in all-gathers and exchanges
  double flops = 0;   ///< flop/s of a rank, of products in the panels' precision
  /// Bytes/s of readers without uploads, of which writers need a part. Infinite if there are no
  /// readers: then writers only take the time of their rows.
  double read = std::numeric_limits<double>::infinity();
  /// Bytes/s that kernels read and write in device memory.
  double device = std::numeric_limits<double>::infinity();
  double call = 0;  ///< seconds of a call that enqueues a kernel or a copy
  /// Whether an all-gather blocks the thread that enqueues it. Nothing else is enqueued meanwhile.
  bool gathers_block = false;
};

/// Predicted seconds. In every super-tile the slowest rank counts. The same on every rank.
struct TimePrediction {
  /// All kernels: products, and the work of DeviceWork.
  double compute_seconds = 0;
  double upload_seconds = 0, gather_seconds = 0, drain_seconds = 0;
  double exchange_seconds = 0, call_seconds = 0;  ///< call_seconds: of calls that enqueue work
  double seconds = 0;  ///< the time of the whole product, in which the times above overlap

  /// The times before `seconds` that are above 0, with their names: "computing", "uploads",
  /// "all-gathers", "exchange", "download" and "calls".
  std::vector<std::pair<std::string_view, double>> limits() const;
  /// The name of the longest of these times.
  std::string_view bound_by() const;
};

/// The time of the product whose super-tiles are `passes` of `cut`, in this order, with a ring of
/// `ring` batches and a window of `window` batches.
TimePrediction predict(const Shape& shape, const Rates& rates, const Cut& cut,
                       const std::vector<Pass>& passes, std::uint64_t ring, std::uint64_t window);

/// The largest window in a ring of `ring` batches. All its batches must be in one segment of K.
/// With split-k the window is one batch, because tiles leave only after their sums have been
/// exchanged.
std::uint64_t max_window(const Shape& shape, std::uint64_t ring);

}  // namespace shardstream::workloads::product
