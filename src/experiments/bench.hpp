// The tools of an experiment on one rank: options, ceilings, verification, tables. They need no
// CUDA; gpu.hpp has the tools that do.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/options.hpp"
#include "core/table.hpp"
#include "device/device.hpp"
#include "device/nvml.hpp"
#include "experiments/axes.hpp"
#include "experiments/experiment.hpp"
#include "measure/sample.hpp"
#include "ranks/heartbeat.hpp"

namespace shardstream::comm {
class Communicator;
}
namespace shardstream::ranks {
class Session;
}
namespace shardstream::runtime {
struct Resources;
}

namespace shardstream::experiments {

/// A measured value with its 95 % confidence interval. The bounds are NaN if there were fewer than
/// six samples.
struct Measured {
  double value, lo, hi;

  /// The same in another unit: seconds.times(1e3) are milliseconds.
  Measured times(double factor) const { return {value * factor, lo * factor, hi * factor}; }
};

/// The time of one call.
struct Timing {
  Measured seconds;  ///< in Scope::all_ranks of the slowest rank in each sample
  /// In Scope::all_ranks, the time of each rank; otherwise empty.
  std::vector<Measured> by_rank = {};

  /// The rate in 10^9 per second if one call handles `amount`: GB/s for bytes.
  Measured rate(double amount) const {
    return {amount / seconds.value / 1e9, amount / seconds.hi / 1e9, amount / seconds.lo / 1e9};
  }
};

/// The quantity is not counted.
inline constexpr double not_counted = std::numeric_limits<double>::quiet_NaN();

/// The work of one call of a kernel, counted from its algorithm, for a roofline.
struct Work {
  double operations;  ///< arithmetic operations on elements; a fused multiply-add is two
  /// Bytes that the threads load from global memory and store there. Words that a block shares
  /// count once for the block, and padding does not count.
  double bytes;
  /// The row of `roofline` that bounds the rate of the operations, such as "fp32" or "tensor bf16".
  /// Empty: none does, as for integers, atomics and functions of several instructions.
  std::string_view arithmetic = {};
  /// The part of `bytes` that caches cannot save: each word counts once for its loads and once for
  /// its stores.
  double distinct = not_counted;
  /// Bytes that shared memory could move while it serves the kernel: 128, the width of its banks,
  /// for each access of a warp that needs no second turn.
  double shared = not_counted;
  /// Instructions that the warps issue. Counts of a kernel's inner loop are those of its machine
  /// code for compute capability 9.0.
  double instructions = not_counted;
};

/// The work of a kernel that loads and stores each word once and uses no shared memory.
constexpr Work streaming(double bytes) {
  return {.operations = 0, .bytes = bytes, .distinct = bytes, .shared = 0};
}

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The sizes `first`, `first` * `factor`, ... below `last`, followed by `last`.
std::vector<std::uint64_t> sizes_up_to(std::uint64_t first, std::uint64_t last,
                                       std::uint64_t factor);

/// The shares of a rank's memory that one array may take. They are small if an experiment has
/// several arrays of the same size.
struct Room {
  double of_device = 0.4;  ///< 0: no array of the device has that size
  double of_host = 0;      ///< 0: no array of the host has that size
};

/// The machine lacks something that the experiment needs, which is no failure.
class NotAvailable : public Error {
 public:
  explicit NotAvailable(const std::string& message) : Error(message) {}
};

/// The tools of ranks that measure together.
struct Together {
  const ranks::Session& session;
  comm::Communicator& communicator;  ///< of all ranks, as a run uses it
};

/// One experiment on one rank: its setting, its notes, its checks. In Scope::all_ranks, agree(),
/// bytes(), verify(), max_of_ranks() and sample() are collective: all ranks call them in the same
/// order, and they end alike. Not thread-safe.
class Bench {
 public:
  struct Setting {
    const Options& options;
    device::Device& device;
    device::GpuFacts facts;  ///< about this rank's GPU, as far as NVML knows them
    const runtime::Resources& resources;
    measure::Sampling sampling;
    bool quick;            ///< fewer and smaller cases
    int rank;              ///< number of this rank among those that measure at the same time
    int at_once;           ///< number of ranks that measure at the same time
    std::uint64_t memory;  ///< bytes of device memory that this rank may use
    const std::map<std::string, double>& ceilings;  ///< of this rank, by name
    ranks::Heartbeat& heartbeat;
    Axes axes = {};
    /// Ordinals of the GPUs with which this rank measures its own one (gpu_pairs.hpp).
    std::vector<int> partners = {};
    std::optional<Together> together = {};  ///< in Scope::all_ranks
  };
  explicit Bench(Setting setting) : setting_(std::move(setting)) {}

  const Options& options() const { return setting_.options; }
  /// The device of this rank, for experiments that run on every backend.
  device::Device& device() const { return setting_.device; }
  const device::GpuFacts& facts() const { return setting_.facts; }
  const runtime::Resources& resources() const { return setting_.resources; }
  ranks::Heartbeat& heartbeat() const { return setting_.heartbeat; }
  bool is_quick() const { return setting_.quick; }
  /// Number of ranks that measure at the same time: all, or 1 (Experiment::turns).
  int at_once() const { return setting_.at_once; }
  /// Number of this rank among them, from 0.
  int rank() const { return setting_.rank; }
  std::uint64_t memory() const { return setting_.memory; }
  /// The points that this run measures, in the order of the rows: those of Experiment::axes that
  /// --axis has not left out. An experiment may skip those that it has no case for. `largest`
  /// replaces the values of the options Axis::most, for example by what fits in memory. Throws
  /// UsageError if a chosen number is larger.
  std::vector<Point> points(const Largest& largest = {}) const {
    return setting_.axes.points(setting_.options, largest);
  }
  /// The columns of Experiment::axes, followed by `others`.
  std::vector<Column> columns(std::vector<Column> others = {}) const {
    return setting_.axes.columns(std::move(others));
  }

  /// Ordinals of the GPUs with which this rank measures its own GPU, so that all ranks together
  /// measure each pair once. Empty unless Needs::gpus is at least 2.
  const std::vector<int>& partners() const { return setting_.partners; }

  /// The session and the communicator of all ranks. Throws ContractError except in
  /// Scope::all_ranks.
  const Together& together() const;

  /// Calls `step`, which makes no collective call. In Scope::all_ranks, all ranks call it, and if
  /// it throws on one of them, all throw the same end.
  void agree(const std::function<void()>& step) const;
  /// The largest `value` of the ranks that measure together; otherwise `value`.
  double max_of_ranks(double value) const;

  /// The option `key` in bytes, the same on ranks that measure together. Throws UsageError if the
  /// given size does not fit in `room`; the message states a size that does. If none is given, the
  /// default (or `usual`) is halved until it fits, and a note says so.
  std::uint64_t bytes(std::string_view key, Room room = {});
  std::uint64_t bytes(std::string_view key, Room room, std::uint64_t usual);

  /// The option `key`, the edge of square matrices, which need `bytes` for each of their edge^2
  /// elements. Throws UsageError if it is no multiple of `granule`, or if the matrices do not fit
  /// in `room` bytes. If none is given, it is the default, or `quick` if is_quick(); a note says if
  /// less fits.
  std::uint64_t edge(std::string_view key, std::uint64_t quick, std::uint64_t granule, double bytes,
                     double room);

  /// `usual` bytes, halved until they fit in this share of the rank's device memory.
  std::uint64_t fitting(std::uint64_t usual, double of_device = 0.4) const;

  /// A ceiling that this run has measured, in the unit of measure/ceilings. Throws ContractError
  /// unless Needs::ceilings names it.
  double ceiling(std::string_view name) const;

  /// Throws Unverified with `what` in its message unless `is_right`.
  void verify(bool is_right, std::string_view what) const;

  /// Adds a sentence that is printed below the table and stored with it.
  void note(std::string_view sentence) { notes_.emplace_back(sentence); }
  const std::vector<std::string>& notes() const { return notes_; }

  /// Replaces Experiment::figure, for a part whose table has other columns. Every rank calls it
  /// with the same figure.
  void draw(const Figure& figure) { figure_ = figure; }
  /// The figure of draw(), if it was called.
  const std::optional<Figure>& figure() const { return figure_; }

  /// Repeats `call`, which returns the seconds that it took, as the options of [measure] say, on
  /// this rank alone. Warm-up calls are not timed. In Scope::all_ranks, each call begins after a
  /// barrier, and rank 0's clock decides when all ranks stop. `part` of measure.max-time is enough
  /// for a quantity that varies by more than measure.precision however often it is measured.
  Timing sample(const std::function<double()>& call, double part = 1);
  /// The same for a call that returns another positive quantity, such as clock cycles.
  Measured repeat(const std::function<double()>& call) { return sample(call).seconds; }
  /// Number of timings that have not converged.
  int unconverged() const { return unconverged_; }

 private:
  std::vector<double> call_in_step(const std::function<double()>& call) const;

  Setting setting_;
  std::vector<std::string> notes_;
  std::optional<Figure> figure_;
  int unconverged_ = 0;
};

/// The subject of the rows of a table.
enum class Rows {
  of_calls,   ///< copies, calls of the host, and others
  of_kernels  ///< kernels, each with its Work
};

/// A table of measurements: the varied quantities, the measured value with its interval, its share
/// of a reference, and a remark that says whether it is as expected.
class Measurements {
 public:
  /// Throws ContractError if two columns of the table have the same name.
  Measurements(std::vector<Column> varied, Column figure, Rows rows = Rows::of_calls);
  /// `share` refers to the reference that Experiment::share names; NaN: there is none.
  void add(std::vector<Cell> varied, const Measured& figure, double share, std::string remark);
  /// A row of a table of kernels. `seconds` is the time of one call; NaN if it is unknown, or if
  /// the bytes cross the host link, so that the roofs of the GPU do not apply.
  void add(std::vector<Cell> varied, const Measured& figure, double share, std::string remark,
           const Work& work, double seconds);
  Table table() && { return std::move(table_); }

 private:
  Table table_;
};

}  // namespace shardstream::experiments
