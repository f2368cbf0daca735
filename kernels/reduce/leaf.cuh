// One leaf by one thread block. Each thread owns a few neighbouring lanes, reads them with one
// vector load a row and keeps several rows in flight; the lanes are then folded by the same tree as
// on the host (leaf.hpp): across warps, inside a warp, inside a thread.
#pragma once

#include <cstring>

#include "kernels/reduce/leaf.hpp"

namespace shardstream::reduce::cuda {

/// Neighbouring lanes that a thread owns.
template <class T>
inline constexpr unsigned lanes_per_thread = sizeof(T) >= 4 ? 2 : 4;

/// Threads of the block that makes a leaf.
template <class T, unsigned Lanes>
inline constexpr unsigned leaf_threads = Lanes / lanes_per_thread<T>;

/// Blocks that a multiprocessor takes at least: the compiler limits registers to that. The variance
/// reads a leaf twice. With one block on each multiprocessor the L2 cache of a recent GPU holds the
/// leaves of f32 that are worked on, so that the second pass comes from there.
template <class T, unsigned Lanes, bool Variance>
inline constexpr unsigned min_leaf_blocks = Variance ? 1 : 512 / leaf_threads<T, Lanes>;

/// Rows of a leaf that are always on their way to a thread: 256 bytes of them, with extremes 128,
/// and fewer of single bytes, which take a register each. Code that looks for markers is longer, so
/// that it is unrolled less.
template <class T, bool Extremes, bool Marked = false>
inline constexpr unsigned flight = Marked           ? 8
                                   : sizeof(T) >= 4 ? (Extremes ? 64 : 128) / sizeof(T)
                                                    : (Extremes ? 8 : 24);

template <class T>
struct alignas(lanes_per_thread<T> * sizeof(T)) LaneVector {
  T lane[lanes_per_thread<T>];
};

/// Any trivially copyable value of whole words from the thread `distance` above in the warp.
template <class V>
__device__ V shuffle_down(const V& value, unsigned distance) {
  static_assert(sizeof(V) % sizeof(unsigned) == 0);
  unsigned words[sizeof(V) / sizeof(unsigned)];
  memcpy(words, &value, sizeof(V));
#pragma unroll
  for (auto& word : words) word = __shfl_down_sync(0xffffffffu, word, distance);
  V moved;
  memcpy(&moved, words, sizeof(V));
  return moved;
}

/// The fixed tree over lanes; valid in thread 0. `shared` holds Threads * Vector values and may be
/// reused when this returns. The first warp takes over from all others at once, since each barrier
/// would cost more than its additions.
template <unsigned Threads, unsigned Vector, class V, class Op>
__device__ V fold_block(V (&lane)[Vector], V* shared, Op op) {
  constexpr unsigned warp = 32, warps = Threads / warp;
  const unsigned t = threadIdx.x;
#pragma unroll
  for (unsigned c = 0; c < Vector; ++c) shared[c * Threads + t] = lane[c];
  __syncthreads();
  if (t < warp) {
#pragma unroll
    for (unsigned c = 0; c < Vector; ++c) {
      V value[warps];
#pragma unroll
      for (unsigned w = 0; w < warps; ++w) value[w] = shared[c * Threads + w * warp + t];
#pragma unroll
      for (unsigned width = warps / 2; width >= 1; width /= 2) {
#pragma unroll
        for (unsigned w = 0; w < width; ++w) value[w] = op(value[w], value[w + width]);
      }
      lane[c] = value[0];
#pragma unroll
      for (unsigned width = warp / 2; width >= 1; width /= 2) {
        lane[c] = op(lane[c], shuffle_down(lane[c], width));
      }
    }
#pragma unroll
    for (unsigned width = Vector / 2; width >= 1; width /= 2) {
#pragma unroll
      for (unsigned c = 0; c < width; ++c) lane[c] = op(lane[c], lane[c + width]);
    }
  }
  __syncthreads();
  return lane[0];
}

/// A key and the place in the leaf where it stands. `place` is none in a lane without values.
template <class Key>
struct Extremum {
  static constexpr unsigned none = ~0u;
  Key key;
  alignas(sizeof(Key) > 4 ? sizeof(Key) : 4) unsigned place;
};

template <bool Least>
struct Better {
  template <class Key>
  __device__ Extremum<Key> operator()(const Extremum<Key>& a, const Extremum<Key>& b) const {
    if (a.place == Extremum<Key>::none) return b;
    if (b.place == Extremum<Key>::none) return a;
    if (a.key == b.key) return a.place < b.place ? a : b;
    return (Least ? a.key < b.key : b.key < a.key) ? a : b;
  }
};
struct Add {
  template <class V>
  __device__ V operator()(const V& a, const V& b) const {
    return a + b;
  }
};
struct Lower {
  __device__ unsigned operator()(unsigned a, unsigned b) const { return a < b ? a : b; }
};

/// Calls step(value, c, place) for each element of this thread's lanes c, row after row. `Flight`
/// rows are always on their way: one is loaded into the place of the one just used.
template <class T, unsigned Lanes, unsigned Flight, class Step>
__device__ void for_elements(const T* x, unsigned count, Step step) {
  constexpr unsigned vector = lanes_per_thread<T>;
  const unsigned first_lane = threadIdx.x * vector;
  const unsigned rows = count / Lanes;
  const auto load = [&](unsigned row) {
    return *reinterpret_cast<const LaneVector<T>*>(x + row * Lanes + first_lane);
  };
  const auto use = [&](const LaneVector<T>& v, unsigned row) {
#pragma unroll
    for (unsigned c = 0; c < vector; ++c) step(v.lane[c], c, row * Lanes + first_lane + c);
  };
  unsigned row = 0;
  if (rows >= Flight) {
    LaneVector<T> v[Flight];
#pragma unroll
    for (unsigned r = 0; r < Flight; ++r) v[r] = load(r);
    for (; row + 2 * Flight <= rows; row += Flight) {
#pragma unroll
      for (unsigned r = 0; r < Flight; ++r) {
        use(v[r], row + r);
        v[r] = load(row + Flight + r);
      }
    }
#pragma unroll
    for (unsigned r = 0; r < Flight; ++r) use(v[r], row + r);
    row += Flight;
  }
  for (; row < rows; ++row) use(load(row), row);
  const unsigned short_row = count % Lanes;
#pragma unroll
  for (unsigned c = 0; c < vector; ++c) {
    const unsigned place = rows * Lanes + first_lane + c;
    if (first_lane + c < short_row) step(x[place], c, place);
  }
}

/// This thread's lanes after a pass.
template <class T>
struct ThreadLanes {
  static constexpr unsigned vector = lanes_per_thread<T>;
  using Key = OrderKey<T>;
  LaneSum<T> sum[vector] = {};
  Extremum<Key> min[vector], max[vector];
  unsigned valid[vector] = {};
  unsigned first_missing[vector];

  __device__ ThreadLanes() {
    for (unsigned c = 0; c < vector; ++c) {
      min[c] = {std::numeric_limits<Key>::max(), Extremum<Key>::none};
      max[c] = {std::numeric_limits<Key>::min(), Extremum<Key>::none};
      first_missing[c] = ~0u;
    }
  }

  template <bool Extremes, bool Masked>
  __device__ void add(T value, unsigned c, unsigned place, T marker) {
    if constexpr (Masked) {
      if (is_missing(value, marker)) {
        if (first_missing[c] == ~0u) first_missing[c] = place;
        return;
      }
      ++valid[c];
    }
    sum[c] += static_cast<LaneSum<T>>(value);
    if constexpr (Extremes) {
      const Key key = extreme_key(value);
      // <= for the first value of a lane, which may be the initial key itself.
      if (key < min[c].key || min[c].place == Extremum<Key>::none) min[c] = {key, place};
      if (max[c].key < key || max[c].place == Extremum<Key>::none) max[c] = {key, place};
    }
  }
};

/// The largest values that are folded are sums and extrema, each of 16 bytes at most.
template <unsigned Lanes>
inline constexpr unsigned leaf_scratch = 16 * Lanes;

/// Statistics of one leaf, by leaf_threads<T, Lanes> threads; valid in thread 0. `first` is
/// the index of the leaf's first element. `shared` holds leaf_scratch<Lanes> bytes, aligned to 16,
/// and may be reused when this returns. Only if `Marked`, integers may be missing; then `want` also
/// decides on extremes and variance, so that one kernel per type is enough.
template <class T, unsigned Lanes, bool Extremes, bool Variance, bool Marked, unsigned Flight>
__device__ PartialOf<T> reduce_leaf(const T* x, unsigned count, std::int64_t first, Want want,
                                    unsigned char* shared) {
  static_assert(!Marked || std::is_integral_v<T>);
  constexpr unsigned vector = lanes_per_thread<T>, threads = leaf_threads<T, Lanes>;
  using Lanes_ = ThreadLanes<T>;
  using Key = typename Lanes_::Key;
  __shared__ bool look_closer;
  __shared__ Mean<Extreme<T>> mean;
  const T marker = Marked ? static_cast<T>(want.marker) : T{};
  const bool variance = Marked ? want.variance : Variance;

  const auto fold_sums = [&](auto& lane) {
    using V = std::remove_reference_t<decltype(lane[0])>;
    return fold_block<threads>(lane, reinterpret_cast<V*>(shared), Add{});
  };

  Lanes_ state;
  for_elements<T, Lanes, Flight>(x, count, [&](T value, unsigned c, unsigned place) {
    state.template add<Extremes, Marked>(value, c, place, marker);
  });
  PartialOf<T> leaf;
  leaf.count = count;
  leaf.m2 = variance ? 0 : no_m2;
  leaf.sum = fold_sums(state.sum);
  const auto count_missing = [&] {
    const std::int64_t valid = fold_sums(state.valid);
    const unsigned place =
        fold_block<threads>(state.first_missing, reinterpret_cast<unsigned*>(shared), Lower{});
    leaf.missing = leaf.count - valid;
    if (place != ~0u) leaf.first_missing = first + place;
  };
  bool masked = Marked;
  if constexpr (Marked) {
    count_missing();
    leaf.count -= leaf.missing;
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (threadIdx.x == 0) look_closer = leaf.sum != leaf.sum;
    __syncthreads();
    if (look_closer) {  // a NaN, or infinities of both signs: again, without NaNs
      state = Lanes_{};
      for_elements<T, Lanes, 1>(x, count, [&](T value, unsigned c, unsigned place) {
        state.template add<Extremes, true>(value, c, place, marker);
      });
      count_missing();
      if (want.skip_missing) {
        masked = true;
        leaf.count -= leaf.missing;
        leaf.sum = fold_sums(state.sum);
      }
    }
  }
  if constexpr (Extremes) {
    auto* scratch = reinterpret_cast<Extremum<Key>*>(shared);
    const auto min = fold_block<threads>(state.min, scratch, Better<true>{});
    const auto max = fold_block<threads>(state.max, scratch, Better<false>{});
    if (min.place != Extremum<Key>::none && (!Marked || want.extremes)) {
      leaf.min = static_cast<Extreme<T>>(from_order_key<T>(min.key));
      leaf.min_index = first + min.place;
      leaf.max = static_cast<Extreme<T>>(from_order_key<T>(max.key));
      leaf.max_index = first + max.place;
    }
  }
  if (Marked && !variance) return leaf;
  if constexpr (Variance) {
    const bool is_empty = Marked && leaf.count == 0;
    if (threadIdx.x == 0 && !is_empty) mean = mean_of<Extreme<T>>(leaf.sum, leaf.count);
    __syncthreads();
    Squares lane[vector] = {};
    for_elements<T, Lanes, Flight>(x, count, [&](T value, unsigned c, unsigned) {
      double delta = deviation(value, mean);
      if constexpr (Marked || std::is_floating_point_v<T>) {
        if (masked && is_missing(value, marker)) delta = 0;
      }
      lane[c].add(delta);
    });
    const Squares about = fold_sums(lane);
    if (leaf.count > 0) {
      leaf.m2 = about.about_mean(leaf.count);
      leaf.residual = about.deviations;
    }
  }
  return leaf;
}

}  // namespace shardstream::reduce::cuda
