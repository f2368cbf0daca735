#include "experiments/pipeline/fed_sum.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "core/parallel.hpp"
#include "kernels/memory/memory.hpp"
#include "pipeline/options.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::experiments::feeds {

using device::Buffer;
using device::Memory;

shardstream::pipeline::Sizes sizes_for(const Bench& bench, const std::string& mode,
                                       const io::Source& source, Range shard) {
  shardstream::pipeline::RingOptions options;
  options.mode = shardstream::pipeline::mode_named(mode);
  return with_element_type(source.type(), [&](auto type) {
    const auto memory =
        reduce::tree_memory<typename decltype(type)::type>(ceil_div(shard.count, leaf_elements));
    return shardstream::pipeline::choose_sizes(
        options, bench.resources(),
        shardstream::pipeline::size_of_shard(source, shard, bench.resources().backend),
        {.unit = leaf_elements, .per_unit = memory.per_leaf, .fixed = memory.fixed});
  });
}

template <class T>
reduce::Sum<reduce::Extreme<T>> reference_sum(const io::Source& source, Range shard,
                                              unsigned threads) {
  using Wide = reduce::Extreme<T>;
  const std::uint64_t leaves = ceil_div(shard.count, leaf_elements);
  std::vector<reduce::Partial<Wide>> partials(leaves);
  parallel_for(leaves, threads, [&](std::uint64_t i) {
    const Range leaf = intersection(shard, {shard.first + i * leaf_elements, leaf_elements});
    const auto elements = std::make_unique<T[]>(leaf.count);
    source.read(leaf.first, leaf.count, reinterpret_cast<std::byte*>(elements.get()));
    reduce::Partial<Wide> largest;
    alignas(16) std::uint64_t exchange[2] = {};  // a host counts its parts there
    reduce::BatchArgs<T> args{.elements = elements.get(),
                              .count = leaf.count,
                              .first = leaf.first,
                              .leaves = &partials[i],
                              .largest = &largest,
                              .samples = nullptr,
                              .exchange = exchange,
                              .want = {},
                              .sample_count = 0,
                              .sampled = {}};
    reduce::batch_kernel<T>().host(args, 0, 1);
  });
  reduce::TreeFold<Wide> fold;
  for (std::uint64_t i = 0; i < leaves; ++i) {
    fold.push({shard.first / leaf_elements + i, 0}, partials[i]);
  }
  return fold.root().sum;
}

template reduce::Sum<double> reference_sum<float>(const io::Source&, Range, unsigned);
template reduce::Sum<double> reference_sum<double>(const io::Source&, Range, unsigned);
template reduce::Sum<std::int64_t> reference_sum<std::int8_t>(const io::Source&, Range, unsigned);
template reduce::Sum<std::int64_t> reference_sum<std::uint8_t>(const io::Source&, Range, unsigned);
template reduce::Sum<std::int64_t> reference_sum<std::uint64_t>(const io::Source&, Range, unsigned);
template reduce::Sum<std::int64_t> reference_sum<std::int32_t>(const io::Source&, Range, unsigned);
template reduce::Sum<std::int64_t> reference_sum<std::int64_t>(const io::Source&, Range, unsigned);

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
    stream->launch(memory::read_kernel(), {data.data(), bytes, sink.data()});
    stream->synchronize();
  };
  return time_passes(bench, read, [] {});
}

}  // namespace shardstream::experiments::feeds
