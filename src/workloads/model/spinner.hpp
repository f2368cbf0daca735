// Lets one rank spend exact times, and checks them with the clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>

#include "device/buffer.hpp"
#include "device/device.hpp"
#include "measure/track.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::workloads::model {

enum class Spin : std::uint8_t {
  busy,  ///< the device works
  sleep  ///< the calling thread sleeps, for more ranks than cores
};

/// Requested and measured times of a rank in nanoseconds.
struct Spent {
  std::int64_t asked = 0, lasted = 0;
  /// The minimum of measured minus requested time over all parts: negative if a part was too short.
  std::int64_t min_excess = std::numeric_limits<std::int64_t>::max();

  void add(std::int64_t part_asked, std::int64_t part_lasted);
};

/// Only for the thread of the MPI session. The runtime must outlive it.
class Spinner {
 public:
  Spinner(runtime::Runtime& runtime, Spin spin);

  /// Sets the counter to 0. Call it before each repetition.
  void reset();
  /// Spends `nanoseconds` in the host phase `phase` of `kind`, in short pieces, so that the
  /// heartbeat reports progress. The device counts them if they are `work`. Returns the measured
  /// time in nanoseconds.
  enum class Counts : bool { nothing, work };
  std::int64_t spend(std::string_view phase, measure::PhaseKind kind, std::int64_t nanoseconds,
                     Counts counts);
  /// The sum of the counters of all ranks since reset(). Collective.
  std::int64_t sum_of_all();

 private:
  using Clock = std::chrono::steady_clock;
  void spend_until(Clock::time_point deadline, std::string_view phase, measure::PhaseKind kind,
                   std::int64_t counted);
  void launch(std::int64_t nanoseconds, std::int64_t counted);

  runtime::Runtime& runtime_;
  Spin spin_;
  measure::DeviceTrack& track_;
  device::Buffer<std::int64_t> counter_, sum_, staged_;
  std::unique_ptr<device::Stream> stream_;  // the last member, since its work uses the buffers
};

}  // namespace shardstream::workloads::model
