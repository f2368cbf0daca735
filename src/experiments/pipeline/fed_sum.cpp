#include "experiments/pipeline/fed_sum.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <vector>

#include "core/parallel.hpp"
#include "kernels/memory/memory.hpp"
#include "pipeline/pipeline_options.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::experiments::feeds {

using device::Buffer;
using device::Memory;

shardstream::pipeline::Sizes sizes_for(const Bench& bench, const std::string& mode,
                                       const io::Source& source, Range shard) {
  shardstream::pipeline::RingOptions options;
  options.mode = shardstream::pipeline::mode_named(mode);
  return shardstream::pipeline::choose_sizes(
      options, bench.resources(),
      shardstream::pipeline::size_of_shard(source, shard, bench.resources().backend),
      {.unit = feed_unit});
}

FedSum::FedSum(Bench& bench, const io::Source& source, Range shard,
               const shardstream::pipeline::Sizes& sizes)
    : element_bytes_(size_of(source.type())),
      sum_(bench.device(), Memory::device, 1),
      all_passes_(bench.device(), Memory::pinned, 1),
      feed_(bench.device(), recorder_, source, shard, sizes, &bench.heartbeat()) {
  all_passes_[0] = 0;
  feed_.compute().upload(sum_.data(), all_passes_.data(), sum_.bytes());
  feed_.compute().synchronize();
  feed_.load([](Range, const std::byte*) {});
}

void FedSum::run() {
  const std::uint64_t before = all_passes_[0];
  feed_.run(
      [&](device::Stream& compute, const shardstream::pipeline::Batch& batch) {
        compute.launch(shardstream::memory::sum_kernel(),
                       {batch.data, batch.elements.count * element_bytes_, sum_.data()});
      },
      [](Range, const std::byte*) {});
  feed_.compute().download(all_passes_.data(), sum_.data(), sum_.bytes());
  feed_.compute().synchronize();
  last_ = all_passes_[0] - before;
}

std::uint64_t reference_sum(const io::Source& source, Range shard, unsigned threads) {
  std::atomic<std::uint64_t> sum{0};
  parallel_for(ceil_div(shard.count, feed_unit), threads, [&](std::uint64_t i) {
    const Range piece = intersection(shard, {shard.first + i * feed_unit, feed_unit});
    const std::uint64_t bytes = piece.count * size_of(source.type());
    std::vector<std::uint64_t> words(ceil_div(bytes, sizeof(std::uint64_t)), 0);
    source.read(piece.first, piece.count, reinterpret_cast<std::byte*>(words.data()));
    sum += std::accumulate(words.begin(), words.end(), std::uint64_t{0});
  });
  return sum;
}

Timing time_passes(Bench& bench, const std::function<void()>& pass,
                   const std::function<void()>& settle) {
  return bench.sample([&] {
    const auto begin = Clock::now();
    pass();
    const double seconds = seconds_since(begin);
    settle();
    return seconds;
  });
}

namespace {

constexpr std::uint64_t copy_bytes = std::uint64_t{64} << 20;

/// Pinned memory in which neighbouring pages differ, and so do the data of successive copies.
Buffer<std::byte> pinned_pages(Bench& bench, std::uint64_t bytes) {
  constexpr std::uint64_t page = 4096;
  constexpr int values = 251;  // the number of pages per copy is not a multiple of it
  Buffer<std::byte> pinned(bench.device(), Memory::pinned, bytes);
  parallel_for(ceil_div(bytes, page), bench.resources().threads, [&](std::uint64_t i) {
    std::memset(pinned.data() + i * page, static_cast<int>(i % values),
                std::min(page, bytes - i * page));
  });
  return pinned;
}

}  // namespace

Timing plain_copies(Bench& bench, std::uint64_t bytes) {
  const std::uint64_t at_a_time = std::min(bytes, copy_bytes);
  const Buffer<std::byte> from = pinned_pages(bench, bytes);
  const Buffer<std::byte> to(bench.device(), Memory::device, at_a_time);
  const Buffer<std::byte> back(bench.device(), Memory::pinned, at_a_time);
  const auto stream = bench.device().make_stream();
  const auto copy = [&] {
    for (std::uint64_t at = 0; at < bytes; at += at_a_time) {
      stream->upload(to.data(), from.data() + at, std::min(at_a_time, bytes - at));
    }
    stream->synchronize();
  };
  const Timing timing = time_passes(bench, copy, [] {});
  const std::uint64_t last = (bytes - 1) / at_a_time * at_a_time;
  stream->download(back.data(), to.data(), bytes - last);
  stream->synchronize();
  bench.verify(std::memcmp(back.data(), from.data() + last, bytes - last) == 0, "plain copies");
  return timing;
}

Timing plain_reads(Bench& bench, std::uint64_t bytes) {
  const Buffer<std::byte> data(bench.device(), Memory::device, bytes);
  const Buffer<std::uint64_t> sink(bench.device(), Memory::device, 1);
  const auto stream = bench.device().make_stream();
  {  // the host maps all memory that was never written to the same page
    const Buffer<std::byte> from = pinned_pages(bench, std::min(bytes, copy_bytes));
    for (std::uint64_t at = 0; at < bytes; at += from.bytes()) {
      stream->upload(data.data() + at, from.data(), std::min(from.bytes(), bytes - at));
    }
    stream->synchronize();
  }
  const auto read = [&] {
    stream->launch(shardstream::memory::read_kernel(), {data.data(), bytes, sink.data()});
    stream->synchronize();
  };
  return time_passes(bench, read, [] {});
}

}  // namespace shardstream::experiments::feeds
