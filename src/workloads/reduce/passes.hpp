// The two parts of `reduce`: each rank reduces its shard, then all ranks fold their partial results
// into the root of the tree.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "kernels/reduce/reduce.hpp"
#include "kernels/reduce/reference.hpp"
#include "kernels/reduce/tree.hpp"
#include "runtime/runtime.hpp"
#include "workloads/stream/computation.hpp"

namespace shardstream::workloads {

using reduce::leaf_elements;
using reduce::Partial;

/// The number of leaves of a range that begins at a leaf.
inline std::uint64_t leaves_in(Range elements) {
  return ceil_div(elements.count, leaf_elements);
}

/// Whether the bits are equal, or both are NaN.
template <class T>
bool same_statistics(const Partial<T>& a, const Partial<T>& b) {
  const auto same = [](auto x, auto y) {
    return (x != x && y != y) || std::memcmp(&x, &y, sizeof(x)) == 0;
  };
  return same(a.sum, b.sum) && same(a.m2, b.m2) && same(a.residual, b.residual) &&
         same(a.count, b.count) && same(a.missing, b.missing) &&
         same(a.first_missing, b.first_missing) && same(a.min, b.min) && same(a.max, b.max) &&
         same(a.min_index, b.min_index) && same(a.max_index, b.max_index);
}

/// One rank's passes over its shard. Each batch is reduced to a few nodes of the tree, which are
/// joined on the host at the end.
template <class T>
class ShardReduction {
 public:
  using Wide = reduce::Extreme<T>;

  ShardReduction(const stream::ShardContext& context, reduce::Want want)
      : context_(context), want_(want) {
    const pipeline::Feed& feed = context.feed;
    for (std::uint64_t i = 0; i < feed.batches(); ++i) {
      const Range batch = feed.batch(i);
      first_node_.push_back(nodes_.size());
      const auto list = reduce::subtrees({batch.first / leaf_elements, leaves_in(batch)});
      nodes_.insert(nodes_.end(), list.begin(), list.end());
    }
    const std::uint64_t leaves_a_batch = context.sizes.batch / leaf_elements;
    leaf_partials_ = buffer(device::Memory::device, leaves_a_batch);
    exchange_ = {*context.runtime.device, device::Memory::device,
                 reduce::exchange_words<T>(leaves_a_batch)};
    node_partials_ = buffer(device::Memory::device, nodes_.size());
    sample_partials_ = buffer(device::Memory::device, context.samples.ranges().size());
    downloaded_nodes_ = buffer(device::Memory::pinned, nodes_.size());
    downloaded_samples_ = buffer(device::Memory::pinned, context.samples.ranges().size());
    if (feed.batches() > 0 && leaves_in(feed.batch(0)) <= max_leaves_folded_again) {
      downloaded_leaves_ = buffer(device::Memory::pinned, leaves_in(feed.batch(0)));
    }
    const std::vector<std::uint64_t> zeros(exchange_.size());
    context.feed.compute().upload(exchange_.data(), zeros.data(), exchange_.bytes());
    context.feed.compute().synchronize();
  }

  /// Enqueues the kernel for the leaves of a batch, its largest subtrees and the samples.
  void enqueue(device::Stream& compute, const pipeline::Batch& batch) {
    if (batch.number == 1) download_first_leaves(compute);  // before batch 1 overwrites them
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
    context_.samples.visit(batch.elements, [&](std::size_t i, Range leaf) {
      if (args.sample_count == 0) args.samples += i;  // the samples of a batch are neighbours
      args.sampled[args.sample_count++] =
          static_cast<std::uint32_t>((leaf.first - batch.elements.first) / leaf_elements);
    });
    compute.launch(reduce::batch_kernel<T>(), args);
  }

  /// Enqueues the downloads after the last batch.
  void download(device::Stream& compute) {
    if (context_.feed.batches() == 1) download_first_leaves(compute);
    compute.download(downloaded_nodes_.data(), node_partials_.data(), node_partials_.bytes());
    compute.download(downloaded_samples_.data(), sample_partials_.data(), sample_partials_.bytes());
  }

  /// The largest whole subtrees of the shard from left to right, after the downloads.
  std::vector<Partial<Wide>> subtrees() const {
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
    const stream::SampledRanges& samples = context_.samples;
    for (std::size_t i = 0; i < samples.ranges().size(); ++i) {
      const Range leaf = samples.ranges()[i];
      worst = reduce::LeafCheck::worse(
          worst,
          reduce::check_leaf(reinterpret_cast<const T*>(samples.data(i)), leaf.count,
                             static_cast<std::int64_t>(leaf.first), want_, downloaded_samples_[i]));
    }
    return worst;
  }

  /// Makes all later passes compute the extremes, too.
  void add_extremes() { want_.extremes = true; }

 private:
  device::Buffer<Partial<Wide>> buffer(device::Memory kind, std::size_t count) {
    return {*context_.runtime.device, kind, count};
  }

  static_assert(stream::SampledRanges::max <= reduce::BatchArgs<T>::max_samples);

  void download_first_leaves(device::Stream& compute) {
    if (downloaded_leaves_.size() == 0) return;
    compute.download(downloaded_leaves_.data(), leaf_partials_.data(), downloaded_leaves_.bytes());
  }

  bool first_batch_is_folded_right() const {
    if (downloaded_leaves_.size() == 0) return true;
    const std::uint64_t first_leaf = context_.shard.first / leaf_elements;
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

  const stream::ShardContext& context_;
  reduce::Want want_;
  std::vector<reduce::Subtree> nodes_;           // of all batches, in order
  std::vector<std::size_t> first_node_;          // of each batch
  device::Buffer<Partial<Wide>> leaf_partials_;  // of the current batch
  device::Buffer<std::uint64_t> exchange_;       // zero between batches
  device::Buffer<Partial<Wide>> node_partials_, sample_partials_;
  device::Buffer<Partial<Wide>> downloaded_nodes_, downloaded_samples_, downloaded_leaves_;
};

/// Gathers the ranks' subtrees and folds them into the root on every rank.
template <class Wide>
class RootFold {
 public:
  RootFold(runtime::Runtime& runtime, const stream::Shards& shards) : runtime_(runtime) {
    expect(shards.unit % leaf_elements == 0, "shards have whole leaves");
    const auto ranks = static_cast<std::size_t>(shards.ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const Range part = shards.of(rank);
      places_.push_back(reduce::subtrees({part.first / leaf_elements, leaves_in(part)}));
      each_ = std::max<std::size_t>(each_, places_.back().size());
    }
    send_ = {*runtime.device, device::Memory::device, each_};
    receive_ = {*runtime.device, device::Memory::device, each_ * ranks};
    staged_ = {*runtime.device, device::Memory::pinned, each_ * ranks};
  }

  /// `own` is the result of this rank's ShardReduction::subtrees(). Collective.
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
