// A block takes tiles of the elements in turn. Most elements have a cell of the table with a single
// interval that does not collect, so each needs one look-up and one addition in shared memory; the
// others are examined. Each warp gathers collected keys in shared memory and writes them together.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "kernels/memory/vector.cuh"
#include "kernels/order/partition.hpp"

namespace shardstream::order::cuda {
namespace {

using shardstream::cuda::resident_blocks, shardstream::cuda::Vector;

constexpr unsigned threads = 512, warp = 32, warps = threads / warp, all_lanes = 0xffffffffU;
constexpr unsigned flight = 4;    // vectors that are on their way to a thread
constexpr unsigned together = 4;  // elements of a thread between checks of its warp's stage
constexpr unsigned stage_keys = 2 * together * warp;  // collected keys of a warp

/// An entry for a cell or an interval: the position of its counter in bytes, and these bits.
using Counter = std::uint16_t;
constexpr unsigned collected_bit = 1, searched_bit = 2, counter_bits = 0xfffc;
constexpr unsigned asks = collected_bit | searched_bit;

template <class T>
inline constexpr unsigned tile_elements = threads* flight* Vector<T>::width;

/// The sizes of a block's shared memory.
struct Layout {
  static constexpr std::size_t max_counter_bytes = 32 << 10;

  unsigned intervals, steps, copies;  // copies of each counter: a power of two

  explicit Layout(unsigned number) : intervals(number), steps(search_steps(number)), copies(warp) {
    while (copies > 1 && counter_words() * sizeof(unsigned) > max_counter_bytes) copies /= 2;
  }
  /// Elements whose intervals are searched have a counter of their own, which is not used.
  __host__ __device__ unsigned counter_words() const { return (intervals + 1) * copies; }
  __device__ Counter counter(std::uint16_t code) const {
    const unsigned each = copies * sizeof(unsigned);
    if (code == several) return static_cast<Counter>(intervals * each | searched_bit);
    const unsigned interval = code & (collects - 1U);
    return static_cast<Counter>(interval * each | ((code & collects) != 0 ? collected_bit : 0));
  }
  template <class K>
  std::size_t bytes() const {
    const std::size_t keys = (std::size_t{1} << steps) + warps * stage_keys;
    return keys * sizeof(K) + (counter_words() + warps) * sizeof(unsigned) +
           (locator_cells + intervals) * sizeof(Counter);
  }
};

/// The locator's arithmetic, with conversions that limit their results to the type.
template <Steps steps, class T>
__device__ unsigned cell_of(const Locator<T>& locator, T x) {
  if constexpr (steps == Steps::of_key) {
    return locator.by_key(key_of(x));
  } else if constexpr (std::is_same_v<T, float>) {
    return min(__float2uint_rz((x - locator.base()) * locator.scale() + 1), locator_cells - 1);
  } else {
    return min(__double2uint_rz((x - locator.base()) * locator.scale() + 1), locator_cells - 1);
  }
}

/// One block at work.
template <Steps steps, class T>
struct Block {
  using K = Key<T>;
  const PartitionArgs<T>& args;
  const Layout& layout;
  K* last;
  K* stage;        // of this warp
  unsigned* kept;  // keys in the stage
  char* counters;  // of this thread's copy
  Counter* cell;
  Counter* interval;
  unsigned nan;  // the entry for NaNs
  unsigned lane = threadIdx.x % warp;

  __device__ Block(const PartitionArgs<T>& given, const Layout& sizes, void* shared)
      : args(given), layout(sizes) {
    last = static_cast<K*>(shared);
    K* const stages = last + (1U << layout.steps);
    auto* const words = reinterpret_cast<unsigned*>(stages + warps * stage_keys);
    stage = stages + threadIdx.x / warp * stage_keys;
    kept = words + threadIdx.x / warp;
    unsigned* const all_counters = words + warps;
    cell = reinterpret_cast<Counter*>(all_counters + layout.counter_words());
    interval = cell + locator_cells;
    counters = reinterpret_cast<char*>(all_counters + (lane & (layout.copies - 1)));
    for (unsigned i = threadIdx.x; i < warps + layout.counter_words(); i += threads) words[i] = 0;
    for (unsigned i = threadIdx.x; i < 1U << layout.steps; i += threads) {
      last[i] = args.table->last[i];
    }
    for (unsigned i = threadIdx.x; i < layout.intervals; i += threads) {
      interval[i] = layout.counter(args.table->code[i]);
    }
#pragma unroll 8
    for (unsigned i = threadIdx.x; i < locator_cells; i += threads) {
      cell[i] = layout.counter(args.table->cell[i]);
    }
    nan = layout.counter(args.table->code[layout.intervals - 1]);
    __syncthreads();
  }

  /// The entry for an element, which is to be counted, and examined if the entry asks for it.
  __device__ unsigned look_up(T x) const {
    const unsigned found = cell[cell_of<steps>(args.locator, x)];
    return x == x ? found : nan;
  }
  __device__ void increase(unsigned counter) {
    atomicAdd(reinterpret_cast<unsigned*>(counters + (counter & counter_bits)), 1U);
  }

  /// Searches the interval of an element and collects its key, as its entry asks for.
  __device__ void examine(unsigned asked, T x) {
    const K key = key_of(x);
    if ((asked & searched_bit) != 0) {
      const unsigned found = interval[interval_of(last, layout.steps, key)];
      increase(found);
      if ((found & collected_bit) == 0) return;
    }
    stage[atomicAdd(kept, 1U)] = key;
  }

  /// Called by a whole warp, after at most `together` elements of each thread.
  __device__ void make_room() {
    __syncwarp();
    if (*kept > stage_keys - together * warp) flush();
  }

  /// Called by a whole warp.
  __device__ void flush() {
    __syncwarp();
    const unsigned keys = *kept;
    unsigned long long first = 0;
    if (lane == 0 && keys > 0) {
      first = atomicAdd(reinterpret_cast<unsigned long long*>(args.collected), keys);
    }
    first = __shfl_sync(all_lanes, first, 0);
    for (unsigned i = lane; i < keys; i += warp) {
      if (first + i < args.capacity) args.keys[first + i] = stage[i];
    }
    __syncwarp();
    if (lane == 0) *kept = 0;
    __syncwarp();
  }

  __device__ void add(const Vector<T>& elements) {
    constexpr unsigned part = Vector<T>::width < together ? Vector<T>::width : together;
#pragma unroll
    for (unsigned first = 0; first < Vector<T>::width; first += part) {
      unsigned asked[part], any = 0;
#pragma unroll
      for (unsigned i = 0; i < part; ++i) {
        asked[i] = look_up(elements[first + i]);
        any |= asked[i];
      }
#pragma unroll
      for (unsigned i = 0; i < part; ++i) increase(asked[i]);
      if (__any_sync(all_lanes, (any & asks) != 0) == 0) continue;
#pragma unroll
      for (unsigned i = 0; i < part; ++i) {
        if ((asked[i] & asks) != 0) examine(asked[i], elements[first + i]);
      }
      make_room();
    }
  }

  __device__ void add_all() {
    const std::uint64_t tiles = args.count / tile_elements<T>;
    const auto load = [&](Vector<T>(&to)[flight], std::uint64_t tile) {
      const auto* from =
          reinterpret_cast<const Vector<T>*>(args.elements + tile * tile_elements<T>);
#pragma unroll
      for (unsigned i = 0; i < flight; ++i) to[i] = from[i * threads + threadIdx.x];
    };
    Vector<T> now[flight], next[flight];
    std::uint64_t tile = blockIdx.x;
    if (tile < tiles) load(now, tile);
    for (; tile < tiles; tile += gridDim.x) {
      if (tile + gridDim.x < tiles) load(next, tile + gridDim.x);
#pragma unroll
      for (unsigned i = 0; i < flight; ++i) {
        add(now[i]);
        now[i] = next[i];
      }
    }
    if (tile == tiles) add_rest(tiles * tile_elements<T>);
  }

  /// The elements behind the last tile. All lanes make the same number of steps.
  __device__ void add_rest(std::uint64_t first) {
    for (; first < args.count; first += threads) {
      if (first + threadIdx.x < args.count) {
        const T x = args.elements[first + threadIdx.x];
        const unsigned asked = look_up(x);
        increase(asked);
        if ((asked & asks) != 0) examine(asked, x);
      }
      make_room();
    }
  }

  /// Adds the counters to those in device memory.
  __device__ void finish() {
    flush();
    __syncthreads();
    const unsigned copies = layout.copies;
    const auto* const all_counters =
        reinterpret_cast<const unsigned*>(counters) - (lane & (copies - 1));
    for (unsigned i = threadIdx.x; i < layout.intervals; i += threads) {
      unsigned long long sum = 0;
      for (unsigned copy = 0; copy < copies; ++copy) {  // lanes begin with different banks
        sum += all_counters[i * copies + ((copy + threadIdx.x) & (copies - 1))];
      }
      if (sum > 0) atomicAdd(reinterpret_cast<unsigned long long*>(args.counts + i), sum);
    }
  }
};

template <Steps steps, class T>
__global__ void __launch_bounds__(threads, 2)
    partition_elements(const __grid_constant__ PartitionArgs<T> args,
                       const __grid_constant__ Layout layout) {
  extern __shared__ uint4 shared[];
  Block<steps, T> block(args, layout, shared);
  block.add_all();
  block.finish();
}

template <Steps steps, class T>
void launch(const PartitionArgs<T>& args, CudaStream stream) {
  const Layout layout(args.intervals);
  const std::size_t bytes = layout.bytes<Key<T>>();
  const std::uint64_t fitting = resident_blocks(partition_elements<steps, T>, threads, bytes);
  const std::uint64_t tiles = args.count / tile_elements<T> + 1;  // with the rest
  // Counters of 32 bits take a block's share of the elements.
  const std::uint64_t blocks =
      std::max({std::min(fitting, tiles), args.count >> 31, std::uint64_t{1}});
  partition_elements<steps>
      <<<static_cast<unsigned>(blocks), threads, bytes, stream>>>(args, layout);
}

}  // namespace

template <class T>
void partition(const PartitionArgs<T>& args, CudaStream stream) {
  if constexpr (std::floating_point<T>) {
    if (args.locator.steps() == Steps::of_value) return launch<Steps::of_value>(args, stream);
  }
  launch<Steps::of_key>(args, stream);
}

template void partition(const PartitionArgs<float>&, CudaStream);
template void partition(const PartitionArgs<double>&, CudaStream);
template void partition(const PartitionArgs<std::int32_t>&, CudaStream);
template void partition(const PartitionArgs<std::int64_t>&, CudaStream);
template void partition(const PartitionArgs<std::int8_t>&, CudaStream);
template void partition(const PartitionArgs<std::uint8_t>&, CudaStream);
template void partition(const PartitionArgs<std::uint64_t>&, CudaStream);

}  // namespace shardstream::order::cuda
