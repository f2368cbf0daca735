// What a rank's GPU was doing while the work ran: samples of power, clocks and temperature, energy,
// and whether the GPU was throttled.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/options.hpp"
#include "core/table.hpp"
#include "device/nvml.hpp"
#include "launch/session.hpp"
#include "measure/sample.hpp"

namespace shardstream::measure {

/// The rows of [measure] on telemetry.
std::span<const OptionRow> telemetry_options();

struct Sample {
  std::chrono::steady_clock::time_point time;
  device::GpuReading reading;
  double took = 0;  ///< seconds of the look, in which the driver can have made others wait
};

/// Energy in joules between two times.
struct Energy {
  double joules = device::unknown;
  bool counted = false;  ///< by the GPU; else it is the integral of the power samples
};

/// From samples in the order of time, by straight lines between them. Unknown unless two samples or
/// more lie between the times and the samples reach over both: shorter work leaves no trace in
/// them.
Energy energy_between(std::span<const Sample> samples, std::chrono::steady_clock::time_point from,
                      std::chrono::steady_clock::time_point to);

/// The reasons for which the GPU was throttled in any sample between two times, as NVML's bits;
/// nothing if no sample there knows.
std::optional<std::uint64_t> throttled_between(std::span<const Sample> samples,
                                               std::chrono::steady_clock::time_point from,
                                               std::chrono::steady_clock::time_point to);

/// Samples one GPU in a thread of its own from start() to stop(). Without a GPU it does nothing.
/// The GPU's Nvml must outlive it.
class Telemetry {
 public:
  /// Keeps at most `most` (16 or more) samples: when there are that many, neighbours are merged and
  /// the interval, in seconds, is doubled.
  Telemetry(std::optional<device::NvmlGpu> gpu, double interval, std::size_t most);
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  void start();
  void stop();

  /// The rest is for after stop().
  const std::vector<Sample>& samples() const { return samples_; }
  /// Memory errors that could not be corrected, between start() and stop(); -1 if unknown.
  std::int64_t new_ecc_errors() const;

 private:
  void sample();
  void run();

  std::optional<device::NvmlGpu> gpu_;
  std::chrono::duration<double> interval_;
  std::size_t most_;
  std::vector<Sample> samples_;
  device::EccErrors before_, after_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

/// Samples that each rank may keep, so that those of `ranks` ranks have room in one result file.
std::size_t most_samples(int ranks);

/// All ranks' telemetry of one run, the same on every rank.
struct RunTelemetry {
  Table samples;  ///< `gpu`: a row a sample; seconds count from the first timed repetition
  std::vector<std::int64_t> throttled;  ///< a repetition: 1 if any rank's GPU was; -1 unknown
  Energy energy;                        ///< of all GPUs, from the first to the last of them
  std::vector<std::string> warnings;    ///< one sentence each
};

/// `gpu` names this rank's GPU (empty: it has none), so that one that ranks share counts once. If
/// one rank knows no energy, nobody knows that of all. Collective.
RunTelemetry gather_telemetry(const launch::Session& session, const Telemetry& telemetry,
                              std::span<const Repetition> repetitions, const std::string& gpu);

}  // namespace shardstream::measure
