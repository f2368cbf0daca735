#include "measure/ceilings.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/statistics.hpp"
#include "device/buffer.hpp"

namespace shardstream::measure {

Ceiling link_up(device::Device& device, const launch::Session& session) {
  constexpr std::size_t bytes = std::size_t{32} << 20;
  // A link that was idle takes some milliseconds to reach its full rate: the second half counts.
  constexpr std::size_t copies = 32;
  device::Buffer<std::byte> from, to;
  std::unique_ptr<device::Stream> stream;
  std::vector<std::unique_ptr<device::Event>> marks;
  session.collectively([&] {
    from = {device, device::Memory::pinned, bytes};
    to = {device, device::Memory::device, bytes};
    stream = device.make_stream();
    for (std::size_t i = 0; i <= copies; ++i) marks.push_back(device.make_event());
  });
  session.barrier();
  for (std::size_t i = 0; i <= copies; ++i) {
    if (i > 0) stream->upload(to.data(), from.data(), bytes);
    stream->record(*marks[i]);
  }
  stream->synchronize();
  std::vector<double> seconds;
  for (std::size_t i = copies / 2 + 1; i <= copies; ++i) {
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
