// A block takes tiles of the elements in turn. Most elements have a cell of the table with a single
// interval, so each needs one look-up and one addition in shared memory; the others are searched.
// Each warp gathers collected keys in shared memory and writes them together.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "kernels/memory/vector.cuh"
#include "kernels/order/partition.hpp"

namespace shardstream::order::cuda {
namespace {

using shardstream::cuda::resident_blocks, shardstream::cuda::Vector;

constexpr unsigned threads = 512, warp = 32, all_lanes = 0xffffffffU;
constexpr unsigned flight = 4;    // vectors that are on their way to a thread
constexpr unsigned together = 4;  // elements of a thread between checks of its warp's stage
constexpr unsigned stage_keys = 2 * together * warp;  // collected keys of a warp

template <class T>
inline constexpr unsigned tile_elements = threads* flight* Vector<T>::width;

/// The sizes of a block's shared memory.
struct Layout {
  static constexpr std::size_t max_counter_bytes = 32 << 10;

  unsigned intervals, steps, copies;  // copies of each counter: a power of two

  explicit Layout(unsigned number) : intervals(number), steps(search_steps(number)), copies(warp) {
    while (copies > 1 && std::size_t{intervals} * copies * sizeof(unsigned) > max_counter_bytes) {
      copies /= 2;
    }
  }
  template <class K>
  std::size_t bytes() const {
    const std::size_t keys = (std::size_t{1} << steps) + threads / warp * stage_keys;
    return keys * sizeof(K) + std::size_t{intervals} * copies * sizeof(unsigned) +
           (locator_cells + intervals) * sizeof(std::uint16_t);
  }
};

/// The locator's arithmetic, with conversions that limit their results to the type.
template <class T>
__device__ unsigned cell_of(const Locator<T>& locator, T x) {
  if constexpr (std::is_same_v<T, float>) {
    return min(__float2uint_rz((x - locator.base()) * locator.step()), locator_cells - 1);
  } else if constexpr (std::is_same_v<T, double>) {
    return min(__double2uint_rz((x - locator.base()) * locator.step()), locator_cells - 1);
  } else {
    return locator(x);
  }
}

/// One block at work.
template <class T>
struct Block {
  using K = Key<T>;
  const PartitionArgs<T>& args;
  const Layout& layout;
  K* last;
  K* stage;            // of this warp
  unsigned* counters;  // of this thread's copy
  std::uint16_t* cell;
  std::uint16_t* codes;
  unsigned lane = threadIdx.x % warp;
  unsigned kept = 0;  // keys in the stage; the same in all lanes

  __device__ Block(const PartitionArgs<T>& given, const Layout& sizes, void* shared)
      : args(given), layout(sizes) {
    last = static_cast<K*>(shared);
    K* const stages = last + (1U << layout.steps);
    auto* const all_counters = reinterpret_cast<unsigned*>(stages + threads / warp * stage_keys);
    stage = stages + threadIdx.x / warp * stage_keys;
    const unsigned words = layout.intervals * layout.copies;
    cell = reinterpret_cast<std::uint16_t*>(all_counters + words);
    codes = cell + locator_cells;
    counters = all_counters + (lane & (layout.copies - 1));
    for (unsigned i = threadIdx.x; i < words; i += threads) all_counters[i] = 0;
    for (unsigned i = threadIdx.x; i < 1U << layout.steps; i += threads) {
      last[i] = args.table->last[i];
    }
    for (unsigned i = threadIdx.x; i < layout.intervals; i += threads) {
      codes[i] = args.table->code[i];
    }
    for (unsigned i = threadIdx.x; i < locator_cells; i += threads) cell[i] = args.table->cell[i];
    __syncthreads();
  }

  /// Counts an element and returns its code.
  __device__ unsigned count(T x) {
    unsigned code = cell[cell_of(args.locator, x)];
    if (code == several || x != x) code = codes[interval_of(last, layout.steps, key_of(x))];
    atomicAdd(counters + (code & (collects - 1U)) * layout.copies, 1U);
    return code;
  }

  /// All threads of a warp call it together. At most `together` calls follow without make_room().
  __device__ void keep(bool wanted, T x) {
    const unsigned others = __ballot_sync(all_lanes, wanted);
    if (others == 0) return;
    if (wanted) stage[kept + __popc(others & ((1U << lane) - 1))] = key_of(x);
    kept += __popc(others);
  }

  __device__ void make_room() {
    if (kept > stage_keys - together * warp) flush();
  }

  __device__ void flush() {
    __syncwarp();
    unsigned long long first = 0;
    if (lane == 0 && kept > 0) {
      first = atomicAdd(reinterpret_cast<unsigned long long*>(args.collected), kept);
    }
    first = __shfl_sync(all_lanes, first, 0);
    for (unsigned i = lane; i < kept; i += warp) {
      if (first + i < args.capacity) args.keys[first + i] = stage[i];
    }
    kept = 0;
    __syncwarp();
  }

  __device__ void add(const Vector<T>& elements) {
    constexpr unsigned part = Vector<T>::width < together ? Vector<T>::width : together;
#pragma unroll
    for (unsigned first = 0; first < Vector<T>::width; first += part) {
      unsigned code[part], any = 0;
#pragma unroll
      for (unsigned i = 0; i < part; ++i) {
        code[i] = count(elements[first + i]);
        any |= code[i];
      }
      if (__any_sync(all_lanes, (any & collects) != 0) == 0) continue;
#pragma unroll
      for (unsigned i = 0; i < part; ++i) {
        keep((code[i] & collects) != 0, elements[first + i]);
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
      const bool valid = first + threadIdx.x < args.count;
      const T x = valid ? args.elements[first + threadIdx.x] : T{};
      const bool wanted = valid && (count(x) & collects) != 0;
      keep(wanted, x);
      make_room();
    }
  }

  /// Adds the counters to those in device memory.
  __device__ void finish() {
    flush();
    __syncthreads();
    const unsigned* const all_counters = counters - (lane & (layout.copies - 1));
    for (unsigned i = threadIdx.x; i < layout.intervals; i += threads) {
      unsigned long long sum = 0;
      for (unsigned copy = 0; copy < layout.copies; ++copy) {  // lanes begin with different banks
        sum += all_counters[i * layout.copies + ((copy + threadIdx.x) & (layout.copies - 1))];
      }
      if (sum > 0) atomicAdd(reinterpret_cast<unsigned long long*>(args.counts + i), sum);
    }
  }
};

template <class T>
__global__ void __launch_bounds__(threads, 2)
    partition_elements(const __grid_constant__ PartitionArgs<T> args,
                       const __grid_constant__ Layout layout) {
  extern __shared__ uint4 shared[];
  Block<T> block(args, layout, shared);
  block.add_all();
  block.finish();
}

}  // namespace

template <class T>
void partition(const PartitionArgs<T>& args, CudaStream stream) {
  const Layout layout(args.intervals);
  const std::size_t bytes = layout.bytes<Key<T>>();
  const std::uint64_t fitting = resident_blocks(partition_elements<T>, threads, bytes);
  const std::uint64_t tiles = args.count / tile_elements<T> + 1;  // with the rest
  // Counters of 32 bits take a block's share of the elements.
  const std::uint64_t blocks =
      std::max({std::min(fitting, tiles), args.count >> 31, std::uint64_t{1}});
  partition_elements<T><<<static_cast<unsigned>(blocks), threads, bytes, stream>>>(args, layout);
}

template void partition(const PartitionArgs<float>&, CudaStream);
template void partition(const PartitionArgs<double>&, CudaStream);
template void partition(const PartitionArgs<std::int32_t>&, CudaStream);
template void partition(const PartitionArgs<std::int64_t>&, CudaStream);
template void partition(const PartitionArgs<std::int8_t>&, CudaStream);
template void partition(const PartitionArgs<std::uint8_t>&, CudaStream);
template void partition(const PartitionArgs<std::uint64_t>&, CudaStream);

}  // namespace shardstream::order::cuda
