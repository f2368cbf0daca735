// A phase is a name, a span one interval of it on a track, a timing the sum of spans. A track is a
// thread of the host or a stream of the device, and has one writer: nothing here takes a lock. A
// recorder has all tracks of one rank, a timeline the spans of all ranks on one clock.
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
#include "launch/heartbeat.hpp"
#include "launch/session.hpp"
#include "measure/clock.hpp"

namespace shardstream::measure {

inline constexpr std::int64_t no_batch = -1;

/// The use of a phase's time, for efficiencies.
enum class Kind : std::uint8_t {
  useful,         ///< kernels, reading, generating, converting and writing data, and setting up
  transfer,       ///< copies between host and device, those into pinned slots included
  communication,  ///< collectives and other MPI calls, and setting them up
  waiting         ///< for another stage, thread or rank
};
std::string_view word_of(Kind kind);

/// The sum of a track's spans of one name and kind.
struct Phase {
  std::string name;
  Kind kind = Kind::useful;
  double seconds = 0;  ///< between the spans' begin and end
  double timed = 0;    ///< the part of `seconds` inside timed repetitions
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;  ///< moved, as the callers counted them
  /// When its last span ended; of host tracks only.
  std::chrono::steady_clock::time_point last_end = {};
};

/// When the current timed repetition began, in the clock's own units; 0: none is being timed. One
/// thread writes it, all tracks read it.
using TimedSince = std::atomic<std::chrono::steady_clock::rep>;

/// Times are nanoseconds of this process's steady clock.
struct KeptSpan {
  std::uint32_t phase;  ///< index in the track's phases
  std::int64_t batch, start_ns, dur_ns;
};

/// What host and device tracks share. To be read when its writer is at rest.
class Track {
 public:
  /// `timed_since` must outlive the track.
  Track(std::string name, bool keeps_spans, const TimedSince& timed_since)
      : name_(std::move(name)), keeps_spans_(keeps_spans), timed_since_(timed_since) {}

  const std::string& name() const { return name_; }
  /// In the order in which they began.
  const std::vector<Phase>& phases() const { return phases_; }
  /// Empty unless spans are kept.
  const std::deque<KeptSpan>& spans() const { return spans_; }

 protected:
  std::size_t find_or_add(std::string_view phase, Kind kind);
  /// `timed`: the part of `seconds` inside a timed repetition.
  void add(std::size_t phase, double seconds, double timed, std::uint64_t bytes);

  std::string name_;
  bool keeps_spans_;
  const TimedSince& timed_since_;
  std::vector<Phase> phases_;
  std::deque<KeptSpan> spans_;  // growing moves none of them
};

/// A thread's. Its spans nest, and are ranges for NVIDIA's profilers.
class HostTrack : public Track {
 public:
  /// Ends when it goes.
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
  [[nodiscard]] Span phase(std::string_view name, Kind kind, std::uint64_t bytes = 0,
                           std::int64_t batch = no_batch) {
    return {*this, find_or_add(name, kind), bytes, batch};
  }
};

/// A stream's, timed by events; written by whoever gives the stream its work. Spans are
/// folded into the sums some time after they were reached, and nothing waits for them.
class DeviceTrack : public Track {
 public:
  /// Keeps spans if there is a clock, which then must outlive it, as must the device.
  DeviceTrack(std::string name, device::Device& device, const DeviceClock* clock,
              const TimedSince& timed_since);

  /// The span begins after, and with end() ends after, what `stream` has been given so far. One at
  /// a time; a span that was begun and not ended is forgotten.
  void begin(device::Stream& stream, std::string_view phase, Kind kind, std::uint64_t bytes,
             std::int64_t batch);
  void end(device::Stream& stream);
  /// Folds all that have ended; waits for them.
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

/// For the thread that made it, but that other threads write to tracks of their own. To be
/// destroyed before the device.
class Recorder {
 public:
  /// Sums phases; also keeps every span if told so. Phases of the main thread are told to
  /// `heartbeat`, if there is one, as they begin.
  explicit Recorder(bool keeps_spans = false, launch::Heartbeat* heartbeat = nullptr);

  /// A phase of the main thread, until the span goes.
  [[nodiscard]] HostTrack::Span phase(std::string_view name, Kind kind, std::uint64_t bytes = 0) {
    if (heartbeat_ != nullptr) heartbeat_->enter(name);
    return main().phase(name, kind, bytes);
  }
  HostTrack& main() { return host_tracks_.front(); }

  /// The track of that name, made at the first call; it stays where it is. Threads get theirs
  /// before they start.
  HostTrack& host_track(std::string_view name);
  /// All of one device.
  DeviceTrack& device_track(std::string_view name, device::Device& device);

  /// Folds all spans of the device that have ended, waiting for them, and relates the device's
  /// clock to the host's anew if spans are kept. For between repetitions.
  void settle();

  /// Between repetitions, after settle(): whether the work that now begins is a timed repetition.
  void begin_work(bool timed);

  bool keeps_spans() const { return keeps_spans_; }
  const std::deque<HostTrack>& host_tracks() const { return host_tracks_; }  ///< main comes first
  const std::deque<DeviceTrack>& device_tracks() const { return device_tracks_; }
  /// How far from the host's clock the device's spans may be put, in nanoseconds.
  std::int64_t device_clock_error() const { return clock_ ? clock_->error() : 0; }

 private:
  bool keeps_spans_;
  launch::Heartbeat* heartbeat_;
  TimedSince timed_since_ = 0;
  std::unique_ptr<DeviceClock> clock_;
  std::deque<HostTrack> host_tracks_;
  std::deque<DeviceTrack> device_tracks_;
};

/// One rank's tracks, the host's before the device's: the order in which phases are counted
/// through.
std::vector<const Track*> tracks_of(const Recorder& recorder);

struct Timeline {
  struct Span {
    std::uint32_t rank;
    std::uint32_t phase;            ///< the rank's n-th, counted through its tracks
    std::int64_t batch;             ///< no_batch if it is of none
    std::int64_t start_ns, dur_ns;  ///< on rank 0's clock, from the first span of the run on
  };
  std::vector<Span> spans;     ///< of all ranks, on rank 0; on others none
  double alignment_error = 0;  ///< seconds that any span may be off at the most; on every rank
};

/// `start` is what compare_clocks() said when the run began; it is asked again. No span may be
/// open. Collective.
Timeline gather_timeline(const launch::Session& session, const Recorder& recorder,
                         const ClockOffset& start);

}  // namespace shardstream::measure
