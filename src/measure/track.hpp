// Times the phases of a run. A track belongs to a thread of the host or to a stream of the device.
// A span is one interval of a phase on a track; a phase sums its spans. A recorder has all tracks
// of one rank. A timeline has the spans of all ranks on one clock. Nothing here takes a lock: only
// one thread may write to a track at a time. Threads that share a track (of the uploads or the
// downloads) hold a lock of their own while they use it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.hpp"
#include "measure/clock.hpp"
#include "ranks/heartbeat.hpp"
#include "ranks/session.hpp"

namespace shardstream::measure {

inline constexpr std::int64_t no_batch = -1;

/// The use of a phase's time, for efficiencies.
enum class PhaseKind : std::uint8_t {
  useful,         ///< kernels, reading, generating, converting and writing data, and setup
  transfer,       ///< copies between host and device and into pinned slots
  communication,  ///< collectives and other MPI calls, and their setup
  waiting         ///< for another stage, thread or rank
};
std::string_view word_of(PhaseKind kind);

/// The sum of a track's spans of one name and kind.
struct Phase {
  std::string name;
  PhaseKind kind = PhaseKind::useful;
  double seconds = 0;  ///< total time of the spans
  double timed = 0;    ///< the part of `seconds` inside timed repetitions
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;  ///< moved, as counted by the callers
  /// The end of the last span; only for host tracks.
  std::chrono::steady_clock::time_point last_end = {};
};

/// The begin of the current timed repetition, in ticks of the steady clock; 0 outside timed
/// repetitions. One thread writes it, and all tracks read it.
using TimedSince = std::atomic<std::chrono::steady_clock::rep>;

/// A recorded span. Times are nanoseconds of this process's steady clock.
struct KeptSpan {
  std::uint32_t phase;  ///< index in the track's phases
  std::int64_t batch, start_ns, dur_ns;
};

/// The common part of host and device tracks. Not synchronised: read it only while no thread writes
/// to it.
class Track {
 public:
  /// `timed_since` must outlive the track.
  Track(std::string name, bool keeps_spans, const TimedSince& timed_since)
      : name_(std::move(name)), keeps_spans_(keeps_spans), timed_since_(timed_since) {}

  const std::string& name() const { return name_; }
  /// The phases, in the order of their first spans.
  const std::vector<Phase>& phases() const { return phases_; }
  /// The recorded spans; empty unless spans are kept.
  const std::deque<KeptSpan>& spans() const { return spans_; }

 protected:
  std::size_t find_or_add(std::string_view phase, PhaseKind kind);
  /// `timed`: the part of `seconds` inside a timed repetition.
  void add(std::size_t phase, double seconds, double timed, std::uint64_t bytes);

  std::string name_;
  bool keeps_spans_;
  const TimedSince& timed_since_;
  std::vector<Phase> phases_;
  std::deque<KeptSpan> spans_;  // a deque, so that references stay valid
};

/// The track of a thread. Its spans nest and are also ranges for NVIDIA's profilers.
class HostTrack : public Track {
 public:
  /// A span that ends with the object.
  class Span {
   public:
    Span(HostTrack& track, std::size_t phase, std::uint64_t bytes, std::int64_t batch);
    ~Span();
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    HostTrack& track_;
    std::size_t phase_;
    std::uint64_t bytes_;
    KeptSpan* kept_ = nullptr;
    std::chrono::steady_clock::time_point start_;
  };

  using Track::Track;
  [[nodiscard]] Span phase(std::string_view name, PhaseKind kind, std::uint64_t bytes = 0,
                           std::int64_t batch = no_batch) {
    return {*this, find_or_add(name, kind), bytes, batch};
  }
};

/// The track of a stream, timed by events. The thread that enqueues work on the stream writes it.
/// If several threads enqueue work, they need a lock for the stream and its track. Spans are added
/// to the sums some time after they have ended, without waiting for them.
class DeviceTrack : public Track {
 public:
  /// Keeps spans if `clock` is not null. The device and the clock must outlive the track.
  DeviceTrack(std::string name, device::Device& device, const DeviceClock* clock,
              const TimedSince& timed_since);

  /// begin() and end() mark the begin and the end of a span, each after all work that is enqueued
  /// on `stream` so far. Spans of a track do not overlap. A span without an end is dropped at the
  /// next begin().
  void begin(device::Stream& stream, std::string_view phase, PhaseKind kind, std::uint64_t bytes,
             std::int64_t batch);
  void end(device::Stream& stream);
  /// Waits for all spans that have an end, and adds them to the sums.
  void fold_all();

 private:
  struct Events {
    std::unique_ptr<device::Event> start, end;
  };
  struct Span {
    Events events;
    std::size_t phase;
    std::uint64_t bytes;
    std::int64_t batch;
  };

  Events make_events();
  Events take_events();
  void fold_first();

  device::Device& device_;
  const DeviceClock* clock_;
  std::vector<Events> free_;
  std::optional<Span> open_;
  std::deque<Span> ended_;
};

/// All tracks of one rank. Only the thread that made the recorder may use it; other threads write
/// to their own tracks. Destroy it before the device.
class Recorder {
 public:
  /// Sums phases. If `keeps_spans`, it also keeps every span. If `heartbeat` is not null, phases of
  /// the main thread are reported to it when they begin.
  explicit Recorder(bool keeps_spans = false, ranks::Heartbeat* heartbeat = nullptr);

  /// Begins a phase of the main thread, which ends with the returned span.
  [[nodiscard]] HostTrack::Span phase(std::string_view name, PhaseKind kind,
                                      std::uint64_t bytes = 0) {
    if (heartbeat_ != nullptr) heartbeat_->enter(name);
    return main().phase(name, kind, bytes);
  }
  HostTrack& main() { return host_tracks_.front(); }

  /// The track of a thread with this name, made at the first call. The reference stays valid. Call
  /// this function before the thread starts.
  HostTrack& host_track(std::string_view name);
  /// The track of a stream with this name. All device tracks must belong to one device.
  DeviceTrack& device_track(std::string_view name, device::Device& device);

  /// Waits for all spans of the device and adds them to the sums. If spans are kept, also renews
  /// the relation between the device's clock and the host's. Call it between repetitions.
  void settle();

  /// Call it after settle(), before work begins. `timed`: whether the work is a timed repetition.
  void begin_work(bool timed);

  bool keeps_spans() const { return keeps_spans_; }
  const std::deque<HostTrack>& host_tracks() const { return host_tracks_; }  ///< main comes first
  const std::deque<DeviceTrack>& device_tracks() const { return device_tracks_; }
  /// The maximum error of the device's spans on the host's clock, in nanoseconds.
  std::int64_t device_clock_error() const { return clock_ ? clock_->error() : 0; }

 private:
  bool keeps_spans_;
  ranks::Heartbeat* heartbeat_;
  TimedSince timed_since_ = 0;
  std::unique_ptr<DeviceClock> clock_;
  std::deque<HostTrack> host_tracks_;
  std::deque<DeviceTrack> device_tracks_;
};

/// The tracks of one rank, host tracks first. Phases are numbered in this order.
std::vector<const Track*> tracks_of(const Recorder& recorder);

struct Timeline {
  struct Span {
    std::uint32_t rank;
    std::uint32_t phase;            ///< number of the rank's phase, counted through its tracks
    std::int64_t batch;             ///< no_batch if the span belongs to no batch
    std::int64_t start_ns, dur_ns;  ///< on rank 0's clock, since the first span of the run
  };
  std::vector<Span> spans;     ///< of all ranks, on rank 0; empty on the others
  double alignment_error = 0;  ///< maximum error of any span in seconds, on every rank
};

/// Gathers the spans of all ranks. `start` is the result of compare_clocks() at the begin of the
/// run; the function compares the clocks again. No span may be open. Collective.
Timeline gather_timeline(const ranks::Session& session, const Recorder& recorder,
                         const ClockOffset& start);

}  // namespace shardstream::measure
