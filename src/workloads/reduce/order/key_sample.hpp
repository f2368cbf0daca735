// A sample of the valid elements of all ranks: keys in device memory. Its elements have fixed
// places in the data, so they are the same on any ranks.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/parallel.hpp"
#include "device/buffer.hpp"
#include "io/source/source.hpp"
#include "kernels/order/digits.hpp"
#include "workloads/stream/computation.hpp"

namespace shardstream::workloads::order_statistics {

using order::Key;

/// The sizes of a sample. Before the first pass, if elements are not where kernels read them, it
/// consists of blocks that are read from the source; blocks of compressed data are fewer and
/// larger. Otherwise each stratum of 2^stride elements gives one element.
struct SampleSizes {
  unsigned stride = 0;
  std::uint64_t blocks = 0, block = 0;  ///< their number in the data, and elements of each

  explicit SampleSizes(const io::Source& source) {
    const std::uint64_t elements = source.count();
    // Up to 2^26 keys, whatever the number of elements is
    const auto bits = [&](unsigned fewer) {
      return static_cast<unsigned>(std::bit_width(elements >> fewer));
    };
    stride = std::max(std::clamp(bits(17), 6U, 9U), bits(26));
    const bool decodes = source.decoding().has_value();
    const std::uint64_t keys = elements >> stride;
    block = decodes ? max_block : std::clamp(keys / max_blocks, min_block, max_block);
    blocks = std::min(keys / block, max_blocks);
    if (decodes) {
      const std::uint64_t few = elements / saturating_product(16, saturating_product(source.box()));
      blocks = std::min(blocks, std::max(few, min_chunks));
    }
  }
  /// The maximum number of keys of a shard.
  std::uint64_t capacity(Range shard) const { return (shard.count >> stride) + 2 * max_block; }
  /// The elements of block i.
  Range place(std::uint64_t i, std::uint64_t elements) const {
    const Range stratum = share(elements, i, blocks);
    return {stratum.first + mix(i + 1) % (stratum.count - block + 1), block};
  }

 private:
  static constexpr std::uint64_t min_block = 256, max_block = 4096, max_blocks = 16384;
  static constexpr std::uint64_t min_chunks = 8;
};

template <class T>
class Sample {
 public:
  /// `counter` is device memory for the number of keys. `context` outlives it.
  Sample(const stream::ShardContext& context, const io::Source& source, order::Missing<T> missing,
         std::uint64_t* counter)
      : context_(context),
        sizes_(source),
        elements_(source.count()),
        missing_(missing),
        counter_(counter),
        keys_(*context.runtime.device, device::Memory::device, sizes_.capacity(context.shard)),
        staged_(*context.runtime.device, device::Memory::pinned, 1) {}

  static std::uint64_t device_bytes(const io::Source& source, Range shard) {
    return SampleSizes(source).capacity(shard) * sizeof(Key<T>);
  }

  /// Takes the sample before the first pass, and waits for it. Returns false if it consists of
  /// blocks, whose elements may be alike.
  bool take(device::Stream& compute) {
    pipeline::Feed& feed = context_.feed;
    if (feed.batches() > 0 && feed.in_place(0) == nullptr) {
      take_blocks(compute);
      return false;
    }
    staged_[0] = 0;
    compute.upload(counter_, staged_.data(), staged_.bytes());
    for (std::uint64_t i = 0; i < feed.batches(); ++i) {
      enqueue(compute, feed.batch(i), feed.in_place(i));
    }
    compute.download(staged_.data(), counter_, staged_.bytes());
    compute.synchronize();
    set_count(staged_[0]);
    return true;
  }

  /// Enqueues the sampling of a batch; the number of keys is added to `counter`.
  void enqueue(device::Stream& compute, Range elements, const std::byte* data) {
    compute.launch(order::sample_kernel<T>(),
                   order::SampleArgs<T>{.elements = reinterpret_cast<const T*>(data),
                                        .first = elements.first,
                                        .count = elements.count,
                                        .stride = sizes_.stride,
                                        .missing = missing_,
                                        .keys = keys_.data(),
                                        .capacity = keys_.size(),
                                        .sampled = counter_});
  }

  /// The number that was counted.
  void set_count(std::uint64_t count) { count_ = std::min<std::uint64_t>(count, keys_.size()); }
  std::uint64_t count() const { return count_; }
  const Key<T>* data() const { return keys_.data(); }
  /// Elements of a block, which may be alike.
  std::uint64_t block() const { return sizes_.block; }

 private:
  void take_blocks(device::Stream& compute) {
    std::vector<Key<T>> keys;
    std::mutex mutex;
    parallel_for(sizes_.blocks, context_.sizes.readers, [&](std::uint64_t i) {
      const Range mine = intersection(context_.shard, sizes_.place(i, elements_));
      if (mine.count == 0) return;
      std::vector<T> elements(mine.count);
      context_.feed.read(mine, reinterpret_cast<std::byte*>(elements.data()));
      const std::lock_guard lock(mutex);
      for (const T x : elements) {
        if (!missing_(x)) keys.push_back(order::key_of(x));
      }
    });
    set_count(keys.size());
    compute.upload(keys_.data(), keys.data(), count_ * sizeof(Key<T>));
    compute.synchronize();
  }

  const stream::ShardContext& context_;
  SampleSizes sizes_;
  std::uint64_t elements_;
  order::Missing<T> missing_;
  std::uint64_t* counter_;
  device::Buffer<Key<T>> keys_;
  device::Buffer<std::uint64_t> staged_;
  std::uint64_t count_ = 0;
};

}  // namespace shardstream::workloads::order_statistics
