#include "measure/ceilings.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <vector>

#include "core/statistics.hpp"
#include "device/buffer.hpp"

namespace shardstream::measure {

namespace {

/// A link that was idle takes some tens of milliseconds to reach its full rate.
void wake_up(const std::function<void()>& copy, device::Stream& stream) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(50);
  while (Clock::now() < end) {
    for (int i = 0; i < 4; ++i) copy();
    stream.synchronize();
  }
}

}  // namespace

Ceiling link_up(device::Device& device, const launch::Session& session) {
  constexpr std::size_t bytes = std::size_t{32} << 20;
  constexpr std::size_t copies = 16;
  device::Buffer<std::byte> from, to;
  std::unique_ptr<device::Stream> stream;
  std::vector<std::unique_ptr<device::Event>> marks;
  session.collectively([&] {
    from = {device, device::Memory::pinned, bytes};
    to = {device, device::Memory::device, bytes};
    stream = device.make_stream();
    for (std::size_t i = 0; i <= copies; ++i) marks.push_back(device.make_event());
  });
  const auto copy = [&] { stream->upload(to.data(), from.data(), bytes); };
  session.barrier();
  wake_up(copy, *stream);
  for (std::size_t i = 0; i <= copies; ++i) {
    if (i > 0) copy();
    stream->record(*marks[i]);
  }
  stream->synchronize();
  std::vector<double> seconds;
  for (std::size_t i = 1; i <= copies; ++i) {
    seconds.push_back(marks[i]->seconds_since(*marks[i - 1]));
  }
  const double mine = static_cast<double>(bytes) / summarize(seconds).median / 1e9;
  const auto all = session.gather(std::vector<double>{mine});
  return {.name = "link_up",
          .least = *std::ranges::min_element(all),
          .aggregate = std::accumulate(all.begin(), all.end(), 0.0),
          .unit = "GB/s"};
}

}  // namespace shardstream::measure
