// Telemetry of a rank's GPU during the work: power, clocks, temperature, energy and throttling.
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
#include "device/nvml.hpp"
#include "measure/sample.hpp"
#include "ranks/session.hpp"

namespace shardstream::result {
struct GpuSample;  // result/tables.hpp
}

namespace shardstream::measure {

/// The rows measure.telemetry and measure.telemetry-interval.
std::span<const OptionRow> telemetry_options();

struct TelemetrySample {
  std::chrono::steady_clock::time_point time;
  device::GpuReading reading;
  double took = 0;  ///< seconds that the reading took; the driver may block other threads meanwhile
};

/// Energy in joules between two times.
struct Energy {
  double joules = device::unknown;
  bool counted = false;  ///< true: counted by the GPU; false: integral of the power samples
};

/// The energy between two times, by linear interpolation between samples, which are in the order of
/// time. At least two samples must lie between the two times, one before them, and one after them.
/// Otherwise the energy is unknown, as it may be for work that is shorter than two sampling
/// intervals.
Energy energy_between(std::span<const TelemetrySample> samples,
                      std::chrono::steady_clock::time_point from,
                      std::chrono::steady_clock::time_point to);

/// The reasons for throttling in all samples between two times together, as bits of NVML. Nothing
/// if no sample between them knows the reasons.
std::optional<std::uint64_t> throttled_between(std::span<const TelemetrySample> samples,
                                               std::chrono::steady_clock::time_point from,
                                               std::chrono::steady_clock::time_point to);

/// Samples one GPU in its own thread from start() to stop(). Without a GPU, it does nothing. The
/// Nvml object of the GPU must outlive it.
class Telemetry {
 public:
  /// Keeps at most `max_samples` samples (16 or more). When there are that many, neighbours are
  /// merged and the interval, in seconds, is doubled.
  Telemetry(std::optional<device::NvmlGpu> gpu, double interval, std::size_t max_samples);
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  void start();
  void stop();

  // Call these functions after stop().
  const std::vector<TelemetrySample>& samples() const { return samples_; }
  /// The number of uncorrectable memory errors between start() and stop(); -1 if unknown.
  std::int64_t new_ecc_errors() const;

 private:
  void sample();
  void run();

  std::optional<device::NvmlGpu> gpu_;
  std::chrono::duration<double> interval_;
  std::size_t max_samples_;
  std::vector<TelemetrySample> samples_;
  device::EccErrors before_, after_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

/// The maximum number of samples of a rank, such that the samples of `ranks` ranks fit into a
/// result file.
std::size_t max_samples(int ranks);

/// All ranks' telemetry of one run, the same on every rank.
struct RunTelemetry {
  std::vector<result::GpuSample> samples;
  /// For each repetition, whether any rank's GPU was throttled: 1 or 0; -1 if unknown.
  std::vector<std::int64_t> throttled;
  /// The energy of all GPUs from the begin of the first repetition to the end of the last one.
  Energy energy;
  std::vector<std::string> warnings;  ///< one sentence each
};

/// Gathers the telemetry of all ranks. `gpu` identifies this rank's GPU, so that a shared GPU is
/// counted once; it is empty without a GPU. The energy is unknown if it is unknown on any rank.
/// Collective.
RunTelemetry gather_telemetry(const ranks::Session& session, const Telemetry& telemetry,
                              std::span<const Repetition> repetitions, const std::string& gpu);

}  // namespace shardstream::measure
