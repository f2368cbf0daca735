// Lets one rank spend exact times, and checks by the clock that it has.
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

/// What a rank was asked for and what the clock showed, in nanoseconds.
struct Spent {
  std::int64_t asked = 0, lasted = 0;
  /// The least by which a part lasted longer than asked: negative if one was too short.
  std::int64_t least_excess = std::numeric_limits<std::int64_t>::max();

  void add(std::int64_t part_asked, std::int64_t part_lasted);
};

/// For the thread that owns the MPI session. The runtime must outlive it.
class Spinner {
 public:
  Spinner(runtime::Runtime& runtime, Spin spin);

  /// Sets the counter to 0. To be called before each repetition.
  void reset();
  /// Spends `nanoseconds` as host phase `phase` of `kind`, in short pieces, so that the heartbeat
  /// moves; the device counts them if they are `work`. Returns the time that passed, in
  /// nanoseconds.
  enum class Counts : bool { nothing, work };
  std::int64_t spend(std::string_view phase, measure::Kind kind, std::int64_t nanoseconds,
                     Counts counts);
  /// What the devices of all ranks have counted since reset(). Collective.
  std::int64_t sum_of_all();

 private:
  using Clock = std::chrono::steady_clock;
  void spend_until(Clock::time_point deadline, std::string_view phase, measure::Kind kind,
                   std::int64_t counted);
  void launch(std::int64_t nanoseconds, std::int64_t counted);

  runtime::Runtime& runtime_;
  Spin spin_;
  measure::DeviceTrack& track_;
  device::Buffer<std::int64_t> counter_, sum_, staged_;
  std::unique_ptr<device::Stream> stream_;  // last: its work uses the buffers
};

}  // namespace shardstream::workloads::model
