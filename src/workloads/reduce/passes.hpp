// The two parts of `reduce`: each rank reduces its shard, then all ranks fold their partial results
// into the root of the tree.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/shard.hpp"
#include "kernels/data/generate.hpp"
#include "kernels/reduce/reduce.hpp"
#include "kernels/reduce/reference.hpp"
#include "kernels/reduce/tree.hpp"
#include "pipeline/feed.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::workloads {

using reduce::leaf_elements;
using reduce::Partial;

/// The number of leaves of a range that begins at a leaf.
inline std::uint64_t leaves_in(Range elements) {
  return ceil_div(elements.count, leaf_elements);
}

/// Samples one leaf from each of up to `max` equal ranges of a shard, chosen by a fixed hash. The
/// elements of these leaves are kept when they are read, so that the result can be verified without
/// reading the data again.
class LeafSamples {
 public:
  static constexpr std::uint64_t max = 16;

  /// `shard` begins at a multiple of `leaf` elements; `element` bytes each.
  LeafSamples(Range shard, std::uint64_t leaf, std::uint64_t element)
      : element_(element), leaf_bytes_(leaf * element) {
    const std::uint64_t leaves = ceil_div(shard.count, leaf);
    const std::uint64_t samples = std::min(leaves, max);
    for (std::uint64_t i = 0; i < samples; ++i) {
      const Range some = share(leaves, i, samples);
      const std::uint64_t chosen = some.first + mix(shard.first + i + 1) % some.count;
      ranges_.push_back(intersection(shard, {shard.first + chosen * leaf, leaf}));
    }
    kept_.resize(samples * leaf_bytes_);
  }

  /// Copies the elements that belong to sampled leaves. Several threads may call it at once, with
  /// ranges that do not overlap.
  void keep(Range elements, const std::byte* data) {
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const Range common = intersection(elements, ranges_[i]);
      if (common.count == 0) continue;
      std::byte* to = kept_.data() + i * leaf_bytes_ + (common.first - ranges_[i].first) * element_;
      std::memcpy(to, data + (common.first - elements.first) * element_, common.count * element_);
    }
  }

  /// The element range of each sample in order, and its elements.
  const std::vector<Range>& ranges() const { return ranges_; }
  const std::byte* data(std::size_t sample) const { return kept_.data() + sample * leaf_bytes_; }

 private:
  std::uint64_t element_, leaf_bytes_;
  std::vector<Range> ranges_;
  std::vector<std::byte> kept_;
};

/// Whether the bits are equal, or both are NaN.
template <class T>
bool same_statistics(const Partial<T>& a, const Partial<T>& b) {
  const auto same = [](auto x, auto y) {
    return (x != x && y != y) || std::memcmp(&x, &y, sizeof(x)) == 0;
  };
  return same(a.sum, b.sum) && same(a.m2, b.m2) && same(a.count, b.count) && same(a.nans, b.nans) &&
         same(a.first_nan, b.first_nan) && same(a.min, b.min) && same(a.max, b.max) &&
         same(a.min_index, b.min_index) && same(a.max_index, b.max_index);
}

/// One rank's pass over its shard. Each batch is reduced to a few nodes of the tree, which are
/// joined on the host at the end.
template <class T>
class ShardReduction {
 public:
  using Wide = reduce::Extreme<T>;

  /// Sizes that leave memory for the partials of a batch's leaves, for the exchange between the
  /// blocks of a GPU, and for all nodes.
  static pipeline::Sizes choose_sizes(const Options& options, const runtime::Resources& resources,
                                      const io::Source& source, Range shard) {
    constexpr std::uint64_t node = sizeof(Partial<Wide>), word = sizeof(std::uint64_t);
    return pipeline::choose_sizes(options, resources, shard.count, sizeof(T), leaf_elements,
                                  node + reduce::exchange_words_per_leaf<T> * word,
                                  leaves_in(shard) * node + reduce::exchange_words<T>(0) * word,
                                  source.decoding());
  }

  ShardReduction(runtime::Runtime& runtime, const io::Source& source, Range shard,
                 const pipeline::Sizes& sizes, reduce::Want want)
      : runtime_(runtime),
        shard_(shard),
        want_(want),
        samples_(shard, leaf_elements, sizeof(T)),
        feed_(*runtime.device, runtime.recorder, source, shard, sizes,
              &runtime.session.heartbeat()) {
    for (std::uint64_t i = 0; i < feed_.batches(); ++i) {
      const Range batch = feed_.batch(i);
      first_node_.push_back(nodes_.size());
      const auto list = reduce::subtrees({batch.first / leaf_elements, leaves_in(batch)});
      nodes_.insert(nodes_.end(), list.begin(), list.end());
    }
    const std::uint64_t leaves_a_batch = sizes.batch / leaf_elements;
    leaf_partials_ = buffer(device::Memory::device, leaves_a_batch);
    exchange_ = {*runtime.device, device::Memory::device,
                 reduce::exchange_words<T>(leaves_a_batch)};
    node_partials_ = buffer(device::Memory::device, nodes_.size());
    sample_partials_ = buffer(device::Memory::device, samples_.ranges().size());
    downloaded_nodes_ = buffer(device::Memory::pinned, nodes_.size());
    downloaded_samples_ = buffer(device::Memory::pinned, samples_.ranges().size());
    if (feed_.batches() > 0 && leaves_in(feed_.batch(0)) <= max_leaves_folded_again) {
      downloaded_leaves_ = buffer(device::Memory::pinned, leaves_in(feed_.batch(0)));
    }
    const std::vector<std::uint64_t> zeros(exchange_.size());
    feed_.compute().upload(exchange_.data(), zeros.data(), exchange_.bytes());
    feed_.compute().synchronize();
  }

  void load() {
    Progress progress("loading", static_cast<double>(shard_.count), runtime_.session.rank() == 0);
    feed_.load([&](Range elements, const std::byte* data) {
      samples_.keep(elements, data);
      progress.add(static_cast<double>(elements.count));
    });
  }

  /// One pass. Returns the largest whole subtrees of the shard from left to right.
  std::vector<Partial<Wide>> run() {
    Progress progress("streaming", static_cast<double>(shard_.count), runtime_.session.rank() == 0);
    feed_.run(
        [&](device::Stream& compute, const pipeline::Batch& batch) {
          enqueue(compute, batch);
          progress.add(static_cast<double>(batch.elements.count));
        },
        [this](Range elements, const std::byte* data) { samples_.keep(elements, data); });
    if (feed_.batches() == 1) download_first_leaves();
    feed_.compute().download(downloaded_nodes_.data(), node_partials_.data(),
                             node_partials_.bytes());
    feed_.compute().download(downloaded_samples_.data(), sample_partials_.data(),
                             sample_partials_.bytes());
    feed_.compute().synchronize();
    reduce::TreeFold<Wide> fold;
    for (std::size_t i = 0; i < nodes_.size(); ++i) fold.push(nodes_[i], downloaded_nodes_[i]);
    std::vector<Partial<Wide>> own;
    for (const auto& node : fold.nodes()) own.push_back(node.partial);
    return own;
  }

  /// Compares the sampled leaves with their references, and the first batch's nodes with its
  /// leaves, which are folded again on the host.
  reduce::LeafCheck verify() const {
    reduce::LeafCheck worst;
    worst.exact = {first_batch_is_folded_right() ? 0.0 : 1.0, 0.0};
    for (std::size_t i = 0; i < samples_.ranges().size(); ++i) {
      const Range leaf = samples_.ranges()[i];
      worst = reduce::LeafCheck::worse(
          worst,
          reduce::check_leaf(reinterpret_cast<const T*>(samples_.data(i)), leaf.count,
                             static_cast<std::int64_t>(leaf.first), want_, downloaded_samples_[i]));
    }
    return worst;
  }

  /// Makes all later calls of run() compute the extremes, too.
  void add_extremes() { want_.extremes = true; }

  std::size_t samples() const { return samples_.ranges().size(); }
  device::Stream& compute() { return feed_.compute(); }

 private:
  device::Buffer<Partial<Wide>> buffer(device::Memory kind, std::size_t count) {
    return {*runtime_.device, kind, count};
  }

  /// Enqueues the kernel for the leaves of a batch, its largest subtrees and the samples.
  void enqueue(device::Stream& compute, const pipeline::Batch& batch) {
    if (batch.number == 1) download_first_leaves();  // before batch 1 overwrites them
    reduce::BatchArgs<T> args{.elements = reinterpret_cast<const T*>(batch.data),
                              .count = batch.elements.count,
                              .first = batch.elements.first,
                              .leaves = leaf_partials_.data(),
                              .largest = node_partials_.data() + first_node_[batch.number],
                              .samples = sample_partials_.data(),
                              .exchange = exchange_.data(),
                              .want = want_,
                              .sample_count = 0,
                              .sampled = {}};
    const auto& ranges = samples_.ranges();
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      if (intersection(batch.elements, ranges[i]).count == 0) continue;
      if (args.sample_count == 0) args.samples += i;  // the samples of a batch are neighbours
      args.sampled[args.sample_count++] =
          static_cast<std::uint32_t>((ranges[i].first - batch.elements.first) / leaf_elements);
    }
    compute.launch(reduce::batch_kernel<T>(), args);
  }
  static_assert(LeafSamples::max <= reduce::BatchArgs<T>::max_samples);

  void download_first_leaves() {
    if (downloaded_leaves_.size() == 0) return;
    feed_.compute().download(downloaded_leaves_.data(), leaf_partials_.data(),
                             downloaded_leaves_.bytes());
  }

  bool first_batch_is_folded_right() const {
    if (downloaded_leaves_.size() == 0) return true;
    const std::uint64_t first_leaf = shard_.first / leaf_elements;
    reduce::TreeFold<Wide> fold;
    for (std::size_t i = 0; i < downloaded_leaves_.size(); ++i) {
      fold.push({first_leaf + i, 0}, downloaded_leaves_[i]);
    }
    for (std::size_t i = 0; i < fold.nodes().size(); ++i) {
      if (!same_statistics(fold.nodes()[i].partial, downloaded_nodes_[i])) return false;
    }
    return true;
  }

  /// The first batch is checked in this way only up to this number of leaves. A resident shard in
  /// one batch can have far more.
  static constexpr std::uint64_t max_leaves_folded_again = 4096;

  runtime::Runtime& runtime_;
  Range shard_;
  reduce::Want want_;
  LeafSamples samples_;
  std::vector<reduce::Subtree> nodes_;           // of all batches, in order
  std::vector<std::size_t> first_node_;          // of each batch
  device::Buffer<Partial<Wide>> leaf_partials_;  // of the current batch
  device::Buffer<std::uint64_t> exchange_;       // zero between batches
  device::Buffer<Partial<Wide>> node_partials_, sample_partials_;
  device::Buffer<Partial<Wide>> downloaded_nodes_, downloaded_samples_, downloaded_leaves_;
  pipeline::Feed feed_;  // the last member: its streams end before the buffers are destroyed
};

/// Gathers the ranks' subtrees and folds them into the root on every rank.
template <class Wide>
class RootFold {
 public:
  RootFold(runtime::Runtime& runtime, std::uint64_t elements) : runtime_(runtime) {
    const auto ranks = static_cast<std::size_t>(runtime.session.size());
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const Range part = shard(elements, leaf_elements, rank, ranks);
      places_.push_back(reduce::subtrees({part.first / leaf_elements, leaves_in(part)}));
      each_ = std::max<std::size_t>(each_, places_.back().size());
    }
    send_ = {*runtime.device, device::Memory::device, each_};
    receive_ = {*runtime.device, device::Memory::device, each_ * ranks};
    staged_ = {*runtime.device, device::Memory::pinned, each_ * ranks};
  }

  /// `own` is the result of this rank's ShardReduction::run(). Collective.
  Partial<Wide> run(device::Stream& stream, const std::vector<Partial<Wide>>& own) {
    const auto rank = static_cast<std::size_t>(runtime_.session.rank());
    expect(own.size() == places_[rank].size(), "a rank has the largest subtrees of its shard");
    std::ranges::copy(own, staged_.data());
    stream.upload(send_.data(), staged_.data(), own.size() * sizeof(Partial<Wide>));
    runtime_.communicator->all_gather(stream, send_.data(), receive_.data(), send_.bytes());
    stream.download(staged_.data(), receive_.data(), receive_.bytes());
    runtime_.communicator->wait(stream);
    reduce::TreeFold<Wide> fold;
    for (std::size_t from = 0; from < places_.size(); ++from) {
      for (std::size_t i = 0; i < places_[from].size(); ++i) {
        fold.push(places_[from][i], staged_[from * each_ + i]);
      }
    }
    return fold.root();
  }

 private:
  runtime::Runtime& runtime_;
  std::vector<std::vector<reduce::Subtree>> places_;  // of each rank
  std::size_t each_ = 1;  // nodes that a rank sends: the maximum of all ranks
  device::Buffer<Partial<Wide>> send_, receive_, staged_;
};

}  // namespace shardstream::workloads
