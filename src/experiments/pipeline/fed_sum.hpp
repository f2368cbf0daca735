// A sum of data that the buffer rings of a run feed to a kernel, the ceilings with which it is
// compared, and its check. Runs on every backend.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "core/shard.hpp"
#include "device/buffer.hpp"
#include "experiments/bench.hpp"
#include "io/source/source.hpp"
#include "kernels/reduce/reduce.hpp"
#include "kernels/reduce/tree.hpp"
#include "measure/track.hpp"
#include "pipeline/feed.hpp"

namespace shardstream::experiments::feeds {

using reduce::leaf_elements;

/// Whether a share is larger than the noise of two measurements explains, and the remark if it is.
constexpr bool is_above_ceiling(double share) {
  return share > 1.1;
}
inline constexpr auto above_ceiling = "above its ceiling, which was measured too low";

/// The sizes that a run would choose for a shard of the source with pipeline.mode `mode`. Throws
/// UsageError if there is not enough memory.
shardstream::pipeline::Sizes sizes_for(const Bench& bench, const std::string& mode,
                                       const io::Source& source, Range shard);

/// Feeds elements of type T to the kernel that adds leaves and their tree in the fixed order of a
/// run.
template <class T>
class FedSum {
 public:
  using Wide = reduce::Extreme<T>;
  using Partial = reduce::Partial<Wide>;

  /// `shard` must begin at a leaf. The source must outlive this object.
  FedSum(Bench& bench, const io::Source& source, Range shard,
         const shardstream::pipeline::Sizes& sizes)
      : feed_(bench.device(), recorder_, source, shard, sizes, &bench.heartbeat()) {
    for (std::uint64_t i = 0; i < feed_.batches(); ++i) {
      first_node_.push_back(nodes_.size());
      const auto list = reduce::subtrees(leaves_of(feed_.batch(i)));
      nodes_.insert(nodes_.end(), list.begin(), list.end());
    }
    const std::uint64_t leaves = sizes.batch / leaf_elements;
    leaves_ = {bench.device(), device::Memory::device, leaves};
    exchange_ = {bench.device(), device::Memory::device, reduce::exchange_words<T>(leaves)};
    partials_ = {bench.device(), device::Memory::device, nodes_.size()};
    downloaded_ = {bench.device(), device::Memory::pinned, nodes_.size()};
    const std::vector<std::uint64_t> zeros(exchange_.size());
    feed_.compute().upload(exchange_.data(), zeros.data(), exchange_.bytes());
    feed_.compute().synchronize();
    feed_.load([](Range, const std::byte*) {});
  }

  /// One pass, from the place of the data to the sum. Returns when the sum is known.
  void run() {
    feed_.run([&](device::Stream& compute, const auto& batch) { enqueue(compute, batch); },
              [](Range, const std::byte*) {});
    feed_.compute().download(downloaded_.data(), partials_.data(), partials_.bytes());
    feed_.compute().synchronize();
    reduce::TreeFold<Wide> fold;
    for (std::size_t i = 0; i < nodes_.size(); ++i) fold.push(nodes_[i], downloaded_[i]);
    sum_ = fold.root().sum;
  }
  /// Discards the spans of the last pass. Call it between two passes.
  void settle() { recorder_.settle(); }

  /// The sum of the last pass.
  const reduce::Sum<Wide>& sum() const { return sum_; }

 private:
  static reduce::Leaves leaves_of(Range batch) {
    return {batch.first / leaf_elements, ceil_div(batch.count, leaf_elements)};
  }

  void enqueue(device::Stream& compute, const shardstream::pipeline::Batch& batch) {
    reduce::BatchArgs<T> args{.elements = reinterpret_cast<const T*>(batch.data),
                              .count = batch.elements.count,
                              .first = batch.elements.first,
                              .leaves = leaves_.data(),
                              .largest = partials_.data() + first_node_[batch.number],
                              .samples = nullptr,
                              .exchange = exchange_.data(),
                              .want = {},
                              .sample_count = 0,
                              .sampled = {}};
    compute.launch(reduce::batch_kernel<T>(), args);
  }

  measure::Recorder recorder_;
  std::vector<reduce::Subtree> nodes_;   // of all batches, in order
  std::vector<std::size_t> first_node_;  // of each batch
  device::Buffer<Partial> leaves_, partials_, downloaded_;
  device::Buffer<std::uint64_t> exchange_;  // zero between batches
  reduce::Sum<Wide> sum_ = 0;
  shardstream::pipeline::Feed feed_;  // last: its streams end before the buffers go
};

/// The same sum without rings and devices: `threads` threads read one leaf after the other and add
/// it with the host's kernel.
template <class T>
reduce::Sum<reduce::Extreme<T>> reference_sum(const io::Source& source, Range shard,
                                              unsigned threads);

/// Whether two sums have the same bits. All NaNs count as equal.
template <class Sum>
bool same_sum(const Sum& a, const Sum& b) {
  return (a != a && b != b) || std::memcmp(&a, &b, sizeof a) == 0;
}

/// Times `pass` by the host's clock. `settle` is called after each pass and not timed.
Timing time_passes(Bench& bench, const std::function<void()>& pass,
                   const std::function<void()>& settle);

/// Times copies of `bytes` bytes from pinned memory to the device, 64 MiB each, one after the
/// other. The last copy is verified.
Timing plain_copies(Bench& bench, std::uint64_t bytes);

/// Times a plain kernel that reads `bytes` bytes of device memory, a multiple of 16. It has no
/// result that could be checked.
Timing plain_reads(Bench& bench, std::uint64_t bytes);

}  // namespace shardstream::experiments::feeds
