#include "measure/ceilings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "core/shard.hpp"
#include "device/buffer.hpp"
#include "kernels/data/generate.hpp"
#include "kernels/math/multiply_add.hpp"
#include "kernels/memory/memory.hpp"
#include "measure/sample.hpp"
#include "result/tables.hpp"

namespace shardstream::measure {
namespace {

using device::Buffer;
using device::Memory;

/// Calls per wait during the warm-up, when the number of calls is not known yet.
constexpr int group = 4;

/// The number of calls that takes `seconds`, if one takes `call` seconds.
int calls_for(double seconds, double call) {
  return static_cast<int>(std::clamp(seconds / call, 2.0, 1000.0));
}

/// `calls` calls, timed once on all ranks in step.
Repetition timed(const ranks::Session& session, const StreamWork& work, int calls,
                 std::uint64_t warmup = 0) {
  return sample(session, {.warmup = warmup, .repetitions = 1}, [&](bool) { work.call(calls); })
      .repetitions.front();
}

/// `bytes` bytes of device memory with random contents, so that no measurement reads uninitialised
/// memory. `bytes` is a multiple of 16. Waits for `stream`.
Buffer<std::byte> random_memory(device::Device& device, device::Stream& stream,
                                std::uint64_t bytes) {
  Buffer<std::byte> data(device, Memory::device, bytes);
  const Buffer<std::byte> piece(device, Memory::pinned, std::min<std::uint64_t>(bytes, 1 << 20));
  generate(Generator::uniform, ElementType::i64, 1, 0, piece.size() / 8, piece.data());
  stream.upload(data.data(), piece.data(), piece.bytes());
  for (std::uint64_t filled = piece.bytes(); filled < bytes; filled *= 2) {
    const memory::CopyArgs doubling = {data.data(), data.data() + filled,
                                       std::min(filled, bytes - filled)};
    stream.launch(memory::copy_kernel(), doubling);
  }
  stream.synchronize();
  return data;
}

}  // namespace

void StreamWork::call(int calls) const {
  for (int i = 0; i < calls; ++i) enqueue();
  for (const auto& stream : streams) {
    communicator != nullptr ? communicator->wait(*stream) : stream->synchronize();
  }
}

Ceiling measured(const std::string& name, const std::string& unit, double amount,
                 const ranks::Session& session, Effort effort, const StreamWork& work) {
  const double call = repeat_for(session, effort.seconds, [&] { work.call(group); }) / group;
  // All ranks use the number of calls of the fastest rank, so that all of them work to the end.
  const int calls = calls_for(effort.seconds, -session.max(-call));
  std::vector<double> all = timed(session, work, calls).ranks;
  for (double& rank : all) rank = amount * calls / rank / 1e9;
  return {.name = name,
          .min = *std::ranges::min_element(all),
          .aggregate = std::accumulate(all.begin(), all.end(), 0.0),
          .unit = unit,
          .by_rank = all,
          .seconds = effort.seconds};
}

Effort effort_for(const device::Device& device, const ranks::Session& session, std::uint64_t bytes,
                  std::uint64_t host_sample, std::uint64_t device_limit) {
  const double max_bytes = session.max(static_cast<double>(bytes));
  constexpr double MiB = 1 << 20;
  const auto pages = [&](double limit) {
    return static_cast<std::uint64_t>(std::clamp(max_bytes, MiB, std::max(MiB, limit))) / 4096 *
           4096;
  };
  const bool on_host = device.info().backend == "host";
  // The minimum of all ranks, so that all measure the same. At most two buffers exist at a time.
  const double half = -session.max(-static_cast<double>(device_limit)) / 2;
  const auto limit = [&](double gpu) { return on_host ? 32 * MiB : std::min(gpu, half); };
  return {.host_bytes = pages(limit(static_cast<double>(host_sample))),
          .device_bytes = pages(limit(2048 * MiB)),
          .seconds = std::clamp(max_bytes / 32e9, 0.002, 0.06)};
}

Ceiling link(LinkDirection way, device::Device& device, const ranks::Session& session,
             Effort effort) {
  constexpr std::array names = {"link_up", "link_down", "link_both"};
  Buffer<std::byte> host, remote, host2, remote2;
  StreamWork work;
  session.collectively([&] {
    const bool both = way == LinkDirection::both;
    for (int i = 0; i < (both ? 2 : 1); ++i) work.streams.push_back(device.make_stream());
    host = {device, Memory::pinned, effort.host_bytes};
    // An upload only writes the device memory.
    remote = way == LinkDirection::down
                 ? random_memory(device, *work.streams[0], effort.host_bytes)
                 : Buffer<std::byte>(device, Memory::device, effort.host_bytes);
    if (both) host2 = {device, Memory::pinned, effort.host_bytes};
    if (both) remote2 = random_memory(device, *work.streams[0], effort.host_bytes);
  });
  work.enqueue = [&] {
    if (way == LinkDirection::down) {
      work.streams[0]->download(host.data(), remote.data(), effort.host_bytes);
    } else {
      work.streams[0]->upload(remote.data(), host.data(), effort.host_bytes);
    }
    if (way == LinkDirection::both) {
      work.streams[1]->download(host2.data(), remote2.data(), effort.host_bytes);
    }
  };
  return measured(names[static_cast<std::size_t>(way)], "GB/s",
                  static_cast<double>(effort.host_bytes), session, effort, work);
}

Ceiling device_read(device::Device& device, const ranks::Session& session, Effort effort) {
  Buffer<std::byte> data;
  Buffer<std::uint64_t> sink;
  StreamWork work;
  session.collectively([&] {
    work.streams.push_back(device.make_stream());
    data = random_memory(device, *work.streams[0], effort.device_bytes);
    sink = {device, Memory::device, 1};
  });
  work.enqueue = [&] {
    work.streams[0]->launch(memory::read_kernel(), {data.data(), effort.device_bytes, sink.data()});
  };
  return measured("device_read", "GB/s", static_cast<double>(effort.device_bytes), session, effort,
                  work);
}

Ceiling device_copy(device::Device& device, const ranks::Session& session, Effort effort) {
  Buffer<std::byte> from, to;
  StreamWork work;
  session.collectively([&] {
    work.streams.push_back(device.make_stream());
    from = random_memory(device, *work.streams[0], effort.device_bytes);
    to = {device, Memory::device, effort.device_bytes};
  });
  work.enqueue = [&] {
    work.streams[0]->launch(memory::copy_kernel(), {from.data(), to.data(), effort.device_bytes});
  };
  return measured("device_copy", "GB/s", 2 * static_cast<double>(effort.device_bytes), session,
                  effort, work);
}

template <class T>
Ceiling arithmetic(device::Device& device, const ranks::Session& session, Effort effort) {
  // A GPU has thousands of lanes, each host thread a few dozen.
  const bool on_host = device.info().backend == "host";
  const std::uint64_t elements = math::elements_together * (on_host ? 16 : 2048);
  constexpr std::uint64_t steps = 4096;
  Buffer<T> sink;
  StreamWork work;
  session.collectively([&] {
    sink = {device, Memory::device, 1};
    work.streams.push_back(device.make_stream());
  });
  work.enqueue = [&] {
    work.streams[0]->launch(math::multiply_add_kernel<T>(),
                            {elements, steps, T{0.5}, T{0.25}, sink.data()});
  };
  return measured(sizeof(T) == 4 ? "arithmetic_f32" : "arithmetic_f64", "Gflop/s",
                  2.0 * static_cast<double>(elements * steps), session, effort, work);
}
template Ceiling arithmetic<float>(device::Device&, const ranks::Session&, Effort);
template Ceiling arithmetic<double>(device::Device&, const ranks::Session&, Effort);

std::optional<Ceiling> all_gather(device::Device& device, comm::Communicator& communicator,
                                  const ranks::Session& session, Effort effort, std::size_t bytes) {
  if (session.size() == 1) return std::nullopt;
  const auto ranks = static_cast<std::size_t>(session.size());
  Buffer<std::byte> send, receive;
  StreamWork work;
  session.collectively([&] {
    work.streams.push_back(device.make_stream());
    send = random_memory(device, *work.streams[0], aligned(bytes));
    receive = {device, Memory::device, bytes * ranks};
  });
  work.communicator = &communicator;
  work.enqueue = [&] {
    communicator.all_gather(*work.streams[0], send.data(), receive.data(), bytes);
  };
  // A fixed number of calls, not a fixed time, since all ranks must call equally often.
  const double call = timed(session, work, group, 1).seconds / group;
  const int calls = calls_for(effort.seconds, call);
  const double seconds = timed(session, work, calls).seconds / calls;
  const double rate = static_cast<double>(bytes * (ranks - 1)) / seconds / 1e9;
  return Ceiling{.name = "all_gather",
                 .min = rate,
                 .aggregate = rate * static_cast<double>(ranks),
                 .unit = "GB/s"};
}

const Ceiling* binding(std::span<const Ceiling> ceilings) {
  const Ceiling* longest = nullptr;
  for (const Ceiling& ceiling : ceilings) {
    if (!ceiling.on_path) continue;
    if (longest == nullptr ||
        ceiling.load * longest->aggregate > longest->load * ceiling.aggregate) {
      longest = &ceiling;
    }
  }
  return longest;
}

Table ceilings_table(const std::vector<Ceiling>& ceilings) {
  std::vector<result::Ceiling> rows;
  for (const Ceiling& ceiling : ceilings) {
    rows.push_back({.name = ceiling.name,
                    .per_rank = ceiling.min,
                    .aggregate = ceiling.aggregate,
                    .unit = ceiling.unit,
                    .on_path = ceiling.on_path,
                    .conditions = ceiling.conditions,
                    .sizes = ceiling.sizes});
  }
  return result::ceilings_table(rows);
}

}  // namespace shardstream::measure
