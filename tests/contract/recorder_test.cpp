// Spans of the device on every backend: they are timed by events without waits, and converted to
// the host's clock.
#include "measure/track.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/error.hpp"
#include "measure/clock.hpp"
#include "support/backend.hpp"
#include "support/forwarding_device.hpp"

namespace shardstream::measure {
namespace {

using device::Buffer;
using device::Memory;

/// Counts the timed events that it makes.
class CountingDevice final : public test::ForwardingDevice {
 public:
  CountingDevice() : ForwardingDevice(test::make_backend()) {}

  std::unique_ptr<device::Event> make_timed_event() override {
    ++events;
    return ForwardingDevice::make_timed_event();
  }
  int events = 0;
};

/// Work that takes some time: a copy of 8 MiB, which no host link does at 1 TB/s.
struct Work {
  static constexpr std::size_t bytes = std::size_t{8} << 20;
  static constexpr double min_seconds = 8e-6;
  Buffer<std::byte> from, to;
  explicit Work(device::Device& device)
      : from(device, Memory::pinned, bytes), to(device, Memory::device, bytes) {}
  void enqueue(device::Stream& stream) const { stream.upload(to.data(), from.data(), bytes); }
};

TEST(Event, ReportsWhetherItWasReached) {
  const auto device = test::make_backend();
  const auto busy = device->make_stream(), stream = device->make_stream();
  const auto done = device->make_event(), event = device->make_event();
  EXPECT_TRUE(event->reached());  // never recorded
  const Work work(*device);
  for (int i = 0; i < 100; ++i) work.enqueue(*busy);
  busy->record(*done);
  stream->wait(*done);
  stream->record(*event);
  EXPECT_FALSE(event->reached());
  work.enqueue(*stream);  // reached() has caused no error
  event->synchronize();
  EXPECT_TRUE(event->reached());
  EXPECT_TRUE(done->reached());
  stream->synchronize();
}

TEST(DeviceTrack, FoldsSpansIntoSums) {
  const auto device = test::make_backend();
  Recorder recorder;
  const auto stream = device->make_stream();
  const Work work(*device);
  DeviceTrack& track = recorder.device_track("upload", *device);
  EXPECT_EQ(&recorder.device_track("upload", *device), &track);
  for (int i = 0; i < 50; ++i) {
    track.begin(*stream, i < 40 ? "upload" : "other", PhaseKind::transfer, 3, i);
    work.enqueue(*stream);
    track.end(*stream);
  }
  recorder.settle();
  ASSERT_EQ(track.phases().size(), 2U);
  EXPECT_EQ(track.phases()[0].name, "upload");
  EXPECT_EQ(track.phases()[0].calls, 40U);
  EXPECT_EQ(track.phases()[0].bytes, 120U);
  EXPECT_GT(track.phases()[0].seconds, 40 * Work::min_seconds);
  EXPECT_LT(track.phases()[0].seconds, 60);
  EXPECT_EQ(track.phases()[1].calls, 10U);
  EXPECT_TRUE(track.spans().empty());
  EXPECT_EQ(recorder.device_clock_error(), 0);
}

/// Any number of spans, if some of them are reached in between.
TEST(DeviceTrack, CountsSecondsInsideTimedRepetitions) {
  const auto device = test::make_backend();
  Recorder recorder;
  const auto stream = device->make_stream();
  const Work work(*device);
  DeviceTrack& track = recorder.device_track("upload", *device);
  for (const bool timed : {false, true, false}) {
    recorder.settle();
    recorder.begin_work(timed);
    track.begin(*stream, timed ? "timed" : "untimed", PhaseKind::transfer, 3, 0);
    work.enqueue(*stream);
    track.end(*stream);
    const auto span = recorder.phase(timed ? "timed" : "untimed", PhaseKind::useful);
  }
  recorder.settle();
  for (const Track* each :
       {static_cast<const Track*>(&track), static_cast<const Track*>(&recorder.main())}) {
    ASSERT_EQ(each->phases().size(), 2U);
    EXPECT_EQ(each->phases()[0].timed, 0);
    EXPECT_GT(each->phases()[1].timed, 0);
    EXPECT_EQ(each->phases()[1].timed, each->phases()[1].seconds);
  }
}

TEST(HostTrack, CountsNothingBeforeTheTimedRepetition) {
  Recorder recorder;
  {
    const auto span = recorder.phase("wait", PhaseKind::waiting);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    recorder.begin_work(true);
  }
  const Phase& phase = recorder.main().phases()[0];
  EXPECT_GE(phase.seconds, 0.005);
  EXPECT_LT(phase.timed, phase.seconds - 0.004);
}

TEST(DeviceTrack, UsesItsEventsAgain) {
  CountingDevice device;
  Recorder recorder;
  const auto stream = device.make_stream();
  DeviceTrack& track = recorder.device_track("upload", device);
  const int before = device.events;
  EXPECT_GT(before, 0);
  for (int i = 0; i < 1000; ++i) {
    track.begin(*stream, "nothing", PhaseKind::transfer, 0, i);
    track.end(*stream);
    stream->synchronize();
  }
  EXPECT_EQ(device.events, before);
  recorder.settle();
  EXPECT_EQ(track.phases().at(0).calls, 1000U);
  // No span is lost if none is reached in time.
  const auto busy = device.make_stream();
  const auto gate = device.make_event();
  const Work work(device);
  for (int i = 0; i < 100; ++i) work.enqueue(*busy);
  busy->record(*gate);
  stream->wait(*gate);
  for (int i = 0; i < 1000; ++i) {
    track.begin(*stream, "nothing", PhaseKind::transfer, 0, i);
    track.end(*stream);
  }
  recorder.settle();
  EXPECT_EQ(track.phases().at(0).calls, 2000U);
}

TEST(DeviceTrack, KeepsSpansOnTheHostsClock) {
  const auto device = test::make_backend();
  Recorder recorder(true);
  const auto upload = device->make_stream(), compute = device->make_stream();
  const auto filled = device->make_event();
  const Work work(*device), more_work(*device);
  DeviceTrack& first = recorder.device_track("upload", *device);
  DeviceTrack& second = recorder.device_track("compute", *device);
  constexpr int spans = 40;
  for (int repetition = 0; repetition < 3; ++repetition) {
    recorder.settle();
    const std::size_t done = first.spans().size();
    const std::int64_t begin = steady_ns();
    for (int i = 0; i < spans; ++i) {
      first.begin(*upload, "upload", PhaseKind::transfer, Work::bytes, i);
      work.enqueue(*upload);
      first.end(*upload);
      upload->record(*filled);
      compute->wait(*filled);
      second.begin(*compute, "kernels", PhaseKind::useful, Work::bytes, i);
      more_work.enqueue(*compute);
      second.end(*compute);
    }
    compute->synchronize();
    const std::int64_t end = steady_ns();
    recorder.settle();
    const std::int64_t error = recorder.device_clock_error() + 1000;  // events tick every 0.5 us
    EXPECT_LT(error, 1'000'000'000);
    ASSERT_EQ(first.spans().size(), done + spans);
    ASSERT_EQ(second.spans().size(), done + spans);
    for (std::size_t i = 0; i < spans; ++i) {
      const KeptSpan& uploaded = first.spans()[done + i];
      const KeptSpan& computed = second.spans()[done + i];
      EXPECT_EQ(uploaded.batch, static_cast<std::int64_t>(i));
      EXPECT_GT(uploaded.dur_ns, Work::min_seconds * 1e9);
      EXPECT_GE(uploaded.start_ns, begin - error);
      EXPECT_GE(computed.start_ns, uploaded.start_ns + uploaded.dur_ns - 1000);
      EXPECT_LE(computed.start_ns + computed.dur_ns, end + error);
      if (i == 0) continue;
      const KeptSpan& before = first.spans()[done + i - 1];
      EXPECT_GE(uploaded.start_ns, before.start_ns + before.dur_ns - 1000);
    }
  }
  double sum = 0;
  for (const auto& span : first.spans()) sum += static_cast<double>(span.dur_ns) / 1e9;
  EXPECT_NEAR(sum, first.phases().at(0).seconds, 1e-9 * 3 * spans);
}

TEST(DeviceTrack, ASpanThatWasNotEndedIsForgotten) {
  const auto device = test::make_backend();
  Recorder recorder;
  const auto stream = device->make_stream();
  DeviceTrack& track = recorder.device_track("upload", *device);
  EXPECT_THROW(track.end(*stream), ContractError);
  track.begin(*stream, "failed", PhaseKind::transfer, 1, 0);
  track.begin(*stream, "upload", PhaseKind::transfer, 2, 1);
  track.end(*stream);
  EXPECT_THROW(track.end(*stream), ContractError);
  recorder.settle();
  EXPECT_EQ(track.phases().at(0).calls, 0U);
  EXPECT_EQ(track.phases().at(1).calls, 1U);
}

}  // namespace
}  // namespace shardstream::measure
