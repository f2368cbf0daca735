// The tree over the leaves of a batch, joined by the blocks that make the leaves: each hands its
// node over and counts itself, and the last one of a group of 2^group_levels nodes joins them. No
// block waits for one that has not begun, and none waits for its own stores: a node is handed over
// in words that say themselves whether they have arrived, so that no fence is needed.
#pragma once

#include "kernels/reduce/leaf.cuh"

namespace shardstream::reduce::cuda {

/// The fields of a partial that a batch can change, in words of 64 bits.
template <class T, bool Extremes, bool Variance, bool Missing>
struct Packed {
  static constexpr unsigned words =
      sizeof(Sum<T>) / 8 + 1 + (Missing ? 2 : 0) + (Variance ? 2 : 0) + (Extremes ? 4 : 0);
  std::uint64_t word[words];

  Packed() = default;
  __device__ explicit Packed(const Partial<T>& partial) {
    unsigned at = 0;
    for_fields(partial, [&](const auto& field) {
      memcpy(word + at, &field, sizeof field);
      at += sizeof field / sizeof word[0];
    });
  }
  __device__ Partial<T> partial() const {
    Partial<T> partial;
    partial.m2 = no_m2;
    unsigned at = 0;
    for_fields(partial, [&](auto& field) {
      memcpy(&field, word + at, sizeof field);
      at += sizeof field / sizeof word[0];
    });
    return partial;
  }
  __device__ void take_right(const Packed& right) {
    *this = Packed(combine(partial(), right.partial()));
  }

 private:
  template <class P, class Use>
  __device__ static void for_fields(P& partial, Use use) {
    use(partial.sum);
    use(partial.count);
    if constexpr (Missing) {
      use(partial.missing);
      use(partial.first_missing);
    }
    if constexpr (Variance) {
      use(partial.m2);
      use(partial.residual);
    }
    if constexpr (Extremes) {
      use(partial.min);
      use(partial.max);
      use(partial.min_index);
      use(partial.max_index);
    }
  }
};

/// Nodes on their way between blocks. A word travels as two halves beside a mark each; the marks
/// are what zeroed memory lacks. Loads and stores of 8 bytes are not torn.
class Exchange {
 public:
  template <class T>
  explicit Exchange(const BatchArgs<T>& args)
      : counters_(args.exchange), leaves_(args.leaf_range().count) {
    const std::uint64_t groups = groups_over<T>(leaves_);
    halves_ = counters_ + groups + groups % 2;
    nodes_ = leaves_ + groups;
  }

  template <class P>
  __device__ void post(std::uint64_t node, const P& packed) const {
#pragma unroll
    for (unsigned i = 0; i < P::words; ++i) {
      const std::uint64_t low = packed.word[i] << 32 | mark, high = packed.word[i] & upper | mark;
      asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(place(node, i)), "l"(low),
                   "l"(high)
                   : "memory");
    }
  }
  /// Counts one more of `all` nodes of the group, whose own node is `group`; true for the last.
  __device__ bool count(std::uint64_t group, unsigned all) const {
    auto* const counter = reinterpret_cast<unsigned*>(counters_ + (group - leaves_));
    return atomicInc(counter, all - 1) == all - 1;
  }
  /// Waits until the node, which was posted, has arrived.
  template <class P>
  __device__ P take(std::uint64_t node) const {
    P packed;
    bool arrived = false;
    while (!arrived) {
      arrived = true;
#pragma unroll
      for (unsigned i = 0; i < P::words; ++i) {
        std::uint64_t low = 0, high = 0;
        asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                     : "=l"(low), "=l"(high)
                     : "l"(place(node, i))
                     : "memory");
        packed.word[i] = low >> 32 | (high & upper);
        arrived = arrived && (low & high & mark) != 0;
      }
    }
    return packed;
  }
  /// Makes the place of a node that was taken zero again.
  template <class P>
  __device__ void clear(std::uint64_t node) const {
#pragma unroll
    for (unsigned i = 0; i < P::words; ++i) {
      *reinterpret_cast<ulonglong2*>(place(node, i)) = ulonglong2{};
    }
  }

 private:
  static constexpr std::uint64_t mark = 1, upper = ~std::uint64_t{0} << 32;

  /// Neighbouring nodes have neighbouring places, so that the threads of a warp read whole lines.
  __device__ std::uint64_t* place(std::uint64_t node, unsigned word) const {
    return halves_ + 2 * (word * nodes_ + node);
  }

  std::uint64_t *counters_, *halves_;
  std::uint64_t leaves_, nodes_;
};

/// Nodes of one level over a range of leaves, and their places in the exchange.
class Level {
 public:
  __device__ explicit Level(Leaves range) : range_(range), begin_(0) {}

  /// The level that is `levels` above.
  __device__ Level above(unsigned levels) const {
    Level up = *this;
    up.begin_ += ((range_.end() - 1) >> level_) - (range_.first >> level_) + 1;
    up.level_ += levels;
    return up;
  }
  __device__ unsigned level() const { return level_; }
  /// The index of the node that begins with that leaf. A group may begin before the range: then
  /// the indices of its first nodes must not be used, but differences of indices stay valid.
  __device__ std::uint64_t index(std::uint64_t first_leaf) const {
    return begin_ + (first_leaf >> level_) - (range_.first >> level_);
  }
  /// Nodes that are joined with a sibling, as if they were leaves: from the first to the last.
  __device__ Leaves joined() const {
    const std::uint64_t round_up = (std::uint64_t{2} << level_) - 1;
    const std::uint64_t begin = (range_.first + round_up) >> (level_ + 1) << 1;
    return {begin, (range_.end() >> (level_ + 1) << 1) - begin};
  }

 private:
  Leaves range_;
  std::uint64_t begin_;
  unsigned level_ = 0;
};

/// Writes a node, which begins with leaf number `first`, that has no sibling in the batch.
template <class T>
__device__ void keep(const BatchArgs<T>& args, std::uint64_t first, const PartialOf<T>& node) {
  args.largest[subtree_index(args.leaf_range(), first)] = node;
}

/// Joins nodes of a group by a thread each: those of threads [begin, end). `index` is that of the
/// first thread's node, `first` its first leaf. Nodes that have no sibling are kept, but not the
/// whole group's: that is returned, in thread 0.
template <class T, class P>
__device__ P join_group(const BatchArgs<T>& args, const Exchange& exchange, std::uint64_t index,
                        unsigned begin, unsigned end, Subtree first) {
  constexpr unsigned warp = 32, warp_levels = 5, levels = group_levels<T>;
  constexpr unsigned warps = 1U << (levels - warp_levels);
  __shared__ P heads[levels - warp_levels][warps];
  const unsigned t = threadIdx.x;
  const bool has_node = begin <= t && t < end;
  P node{};
  if (has_node) node = exchange.template take<P>(index + t);
  unsigned joined = 0;  // levels of this thread's node
  // Not unrolled: this runs once, so that loading the code would take longer than running it.
#pragma unroll 1
  for (unsigned i = 0; i < levels; ++i) {
    P right;
    if (i < warp_levels) {
      right = shuffle_down(node, 1U << i);
    } else {
      const unsigned width = 1U << (i - warp_levels);
      if (t % warp == 0) heads[i - warp_levels][t / warp] = node;
      __syncthreads();
      right = heads[i - warp_levels][(t / warp + width) % warps];
    }
    const unsigned width = 2U << i;
    if (t % width == 0 && begin <= t && t + width <= end) {
      node.take_right(right);
      joined = i + 1;
    }
  }
  if (!has_node) return node;
  exchange.template clear<P>(index + t);
  const Subtree place{first.first + (std::uint64_t{t} << first.level), first.level + joined};
  if (joined < levels && !args.leaf_range().join(place)) keep(args, place.first, node.partial());
  return node;
}

/// Hands the node of leaf number `leaf` over, and joins what is then complete. `partial` is that of
/// thread 0, which calls `meanwhile` once.
template <class T, class P, class Meanwhile>
__device__ void join_batch(const BatchArgs<T>& args, const Exchange& exchange, std::uint64_t leaf,
                           const PartialOf<T>& partial, Meanwhile meanwhile) {
  __shared__ bool is_last;
  constexpr unsigned levels = group_levels<T>;
  const Leaves range = args.leaf_range();
  Subtree place{range.first + leaf, 0};
  P node(partial);
  for (Level level(range); range.join(place);) {
    const Level above = level.above(levels);
    const std::uint64_t group = place.first >> above.level();
    const Leaves nodes = level.joined().in_common_with({group << levels, levels});
    if (threadIdx.x == 0) {
      exchange.post(level.index(place.first), node);
      const bool last =
          exchange.count(above.index(place.first), static_cast<unsigned>(nodes.count));
      if (place.level == 0) meanwhile();
      is_last = last;
    }
    __syncthreads();
    if (!is_last) return;
    const auto begin = static_cast<unsigned>(nodes.first - (group << levels));
    const auto end = begin + static_cast<unsigned>(nodes.count);
    place = {group << above.level(), above.level()};
    node = join_group<T, P>(args, exchange, level.index(place.first), begin, end,
                            {place.first, level.level()});
    if (!range.hold(place)) return;
    level = above;
  }
  if (threadIdx.x != 0) return;
  if (place.level == 0) meanwhile();
  keep(args, place.first, node.partial());
}

}  // namespace shardstream::reduce::cuda
