// The tools of an experiment on one rank: options, ceilings, verification, tables. Needs no CUDA;
// the part that does is in gpu.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/options.hpp"
#include "core/table.hpp"
#include "device/device.hpp"
#include "device/nvml.hpp"
#include "launch/heartbeat.hpp"
#include "measure/sample.hpp"

namespace shardstream::runtime {
struct Resources;
}

namespace shardstream::experiments {

/// A measured figure with its 95 % interval; the bounds are NaN if there were fewer than six
/// samples.
struct Estimate {
  double value, lo, hi;
};

/// The time of one call.
struct Timing {
  Estimate seconds;
  bool converged = true;

  /// `amount` a call in units of 10^9 a second, such as GB/s for bytes.
  Estimate rate(double amount) const {
    return {amount / seconds.value / 1e9, amount / seconds.hi / 1e9, amount / seconds.lo / 1e9};
  }
};
/// Of one sample or more, in seconds.
Timing timing_of(std::vector<double> seconds, measure::Convergence convergence);

/// The times of `call`, which returns the seconds that it took, after one untimed call. Samples are
/// taken until `policy` stops them, on this rank alone.
Timing sample_here(const measure::Sampling& policy, launch::Heartbeat& heartbeat,
                   const std::function<double()>& call);

/// `first`, `first` * `factor` ... below `last`, and `last` itself.
std::vector<std::uint64_t> sizes_up_to(std::uint64_t first, std::uint64_t last,
                                       std::uint64_t factor);

/// The parts of a rank's memory that a size may take. An experiment with several arrays of that
/// size takes a smaller part.
struct Room {
  double of_device = 0.4;
  double of_host = 0;  ///< 0: arrays of the host do not grow with the size
};

/// The machine lacks something that the experiment needs, which is no failure.
class NotAvailable : public Error {
 public:
  explicit NotAvailable(const std::string& message) : Error(message) {}
};

/// All of one experiment on one rank. Valid during the experiment. Not thread-safe.
class Bench {
 public:
  struct Setting {
    const Options& options;
    device::Device& device;
    device::GpuFacts facts;  ///< of this rank's GPU, if NVML knows it
    const runtime::Resources& resources;
    measure::Sampling sampling;
    bool quick;                                     ///< fewer and smaller cases
    int rank, at_once;                              ///< of those that measure at the same time
    std::uint64_t memory;                           ///< bytes that the device gives this rank
    const std::map<std::string, double>& ceilings;  ///< by name, of this rank
    launch::Heartbeat& heartbeat;
  };
  explicit Bench(Setting setting) : setting_(std::move(setting)) {}

  const Options& options() const { return setting_.options; }
  /// This rank's device, for experiments that are written for every backend.
  device::Device& device() const { return setting_.device; }
  const device::GpuFacts& facts() const { return setting_.facts; }
  const measure::Sampling& sampling() const { return setting_.sampling; }
  const runtime::Resources& resources() const { return setting_.resources; }
  launch::Heartbeat& heartbeat() const { return setting_.heartbeat; }
  bool is_quick() const { return setting_.quick; }
  /// Ranks that measure at the same time: all, or 1 in turns (Experiment::turns).
  int at_once() const { return setting_.at_once; }
  /// This rank's number among them, from 0.
  int rank() const { return setting_.rank; }
  std::uint64_t memory() const { return setting_.memory; }

  /// The option `key` in bytes. If it is given, throws UsageError, which states the largest size
  /// that fits, unless there is room for it. Otherwise its default, or `usual`, is halved until it
  /// fits; a note says so.
  std::uint64_t bytes(std::string_view key, Room room = {});
  std::uint64_t bytes(std::string_view key, Room room, std::uint64_t usual);

  /// A rate measured in this run, in the unit of measure/ceilings. Throws ContractError unless the
  /// experiment's needs name it.
  double ceiling(std::string_view name) const;

  /// Throws Unverified, which names `what`, unless `is_right`.
  void verify(bool is_right, std::string_view what) const;

  /// A sentence for the reader, printed below the table and stored with it.
  void note(std::string sentence) { notes_.push_back(std::move(sentence)); }
  const std::vector<std::string>& notes() const { return notes_; }

  /// Counts a timing that has not converged.
  void count(const Timing& timing) { unconverged_ += timing.converged ? 0 : 1; }
  int unconverged() const { return unconverged_; }

 private:
  Setting setting_;
  std::vector<std::string> notes_;
  int unconverged_ = 0;
};

/// A table of measurements: what varies, the figure with its interval, its share of a ceiling, and
/// a remark that says whether it is as expected.
class Measurements {
 public:
  Measurements(std::vector<Column> varied, Column figure);
  /// `share` is of what Experiment::share says; NaN if there is nothing to compare with.
  void add(std::vector<Cell> varied, const Estimate& figure, double share, std::string remark);
  Table table() && { return std::move(table_); }

 private:
  Table table_;
};

}  // namespace shardstream::experiments
