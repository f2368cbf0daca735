// A block counts in shared memory and adds its counters to those in device memory at the end. A few
// counters have 32 bits and copies; more have 16 bits; even more are in device memory only.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "kernels/memory/vector.cuh"
#include "workloads/histogram/count.hpp"

namespace shardstream::workloads::histogram::cuda {
namespace {

using shardstream::cuda::attribute, shardstream::cuda::resident_blocks, shardstream::cuda::Vector;

constexpr unsigned threads = 1024, warp = 32, all_lanes = 0xffffffffU;
constexpr unsigned flight = 4;     // vectors that are on their way to a thread
constexpr unsigned no_cell = ~0U;  // of an element outside the range

__device__ void add_to(std::uint64_t* counter, std::uint64_t n) {
  if (n > 0) atomicAdd(reinterpret_cast<unsigned long long*>(counter), n);
}

template <class T>
inline constexpr unsigned tile_elements = threads* flight* Vector<T>::width;

/// How the elements of a warp that are in one cell are added.
enum class Merge {
  by_hardware,  ///< one by one: atomics that add 1 to the same word of shared memory are fast
  whole_warps,  ///< together, if all elements of the warp's vectors are in one cell
  equal_lanes   ///< as for whole_warps, and otherwise together for each element of a vector
};

/// Counters of 32 bits, with up to 32 copies, which the lanes of a warp share. The number of copies
/// is a power of two, since a remainder for each element would take half as long as everything
/// else.
struct Wide {
  static constexpr Merge merge = Merge::by_hardware;
  static constexpr std::size_t max_bytes_of_copies = 64 << 10;

  unsigned cells, copies;

  explicit Wide(unsigned number) : cells(number), copies(warp) {
    while (copies > 1 && bytes() > max_bytes_of_copies) copies /= 2;
  }
  constexpr std::size_t bytes() const { return std::size_t{cells} * copies * sizeof(unsigned); }

  __device__ void add(unsigned* shared, std::uint64_t*, unsigned cell, unsigned) const {
    atomicAdd(shared + cell * copies + (threadIdx.x & (copies - 1)), 1U);
  }
  __device__ void make_room(unsigned*, std::uint64_t*) const {}
  __device__ std::uint64_t number(const unsigned* shared, unsigned cell) const {
    std::uint64_t sum = 0;
    for (unsigned i = 0; i < copies; ++i) {  // each lane begins with another bank
      sum += shared[cell * copies + ((i + threadIdx.x) & (copies - 1))];
    }
    return sum;
  }
};

/// Counters of 16 bits, two in a word.
struct Narrow {
  static constexpr Merge merge = Merge::whole_warps;

  unsigned cells;

  explicit Narrow(unsigned number) : cells(number) {}
  constexpr std::size_t bytes() const { return (std::size_t{cells} + 7) / 8 * sizeof(uint4); }

  __device__ void add(unsigned* shared, std::uint64_t*, unsigned cell, unsigned n) const {
    atomicAdd(shared + cell / 2, n << (cell % 2 * 16));
  }
  /// Takes 2^15 out of each counter that has reached it, so that 2^15 can be added to any counter.
  __device__ void make_room(unsigned* shared, std::uint64_t* counts) const {
    constexpr unsigned low = 0x8000, high = low << 16;
    __syncthreads();
    for (unsigned i = threadIdx.x; i < bytes() / sizeof(uint4); i += threads) {
      const uint4 four = reinterpret_cast<const uint4*>(shared)[i];
      if (((four.x | four.y | four.z | four.w) & (low | high)) == 0) continue;
      for (unsigned word = 4 * i; word < 4 * i + 4; ++word) {
        if ((shared[word] & low) != 0) add_to(counts + 2 * word, low);
        if ((shared[word] & high) != 0) add_to(counts + 2 * word + 1, low);
        shared[word] &= ~(low | high);
      }
    }
    __syncthreads();
  }
  __device__ std::uint64_t number(const unsigned* shared, unsigned cell) const {
    return shared[cell / 2] >> (cell % 2 * 16) & 0xffffU;
  }
};

/// No counters in shared memory.
struct None {
  static constexpr Merge merge = Merge::equal_lanes;

  unsigned cells;

  explicit None(unsigned number) : cells(number) {}
  constexpr std::size_t bytes() const { return 0; }

  __device__ void add(unsigned*, std::uint64_t* counts, unsigned cell, unsigned n) const {
    add_to(counts + cell, n);
  }
  __device__ void make_room(unsigned*, std::uint64_t*) const {}
  __device__ std::uint64_t number(const unsigned*, unsigned) const { return 0; }
};

/// One block at work.
template <class T, class Counters>
struct Block {
  const CountArgs<T>& args;
  const Counters& counters;
  unsigned* shared;
  unsigned outside[outside_counters] = {};
  unsigned added = 0;  // at most, to any counter since there was room for 2^15

  /// The cell of an element, or no_cell, if it has been counted as one outside the range.
  __device__ unsigned cell_of(T x) {
    if (args.cells.in_range(x)) return args.cells(x);
    const bool is_below = args.cells.is_below(x), is_nan = x != x;
    outside[below] += is_below;
    outside[above] += !is_below && !is_nan;
    outside[nan] += is_nan;
    return no_cell;
  }

  __device__ void add(unsigned cell, unsigned n) {
    if (cell != no_cell) counters.add(shared, args.counts, cell, n);
  }

  /// All threads of a warp call it together.
  __device__ void add(const Vector<T>& elements) {
    unsigned cell[Vector<T>::width];
#pragma unroll
    for (unsigned i = 0; i < Vector<T>::width; ++i) cell[i] = cell_of(elements[i]);
    const unsigned lane = threadIdx.x % warp;
    if constexpr (Counters::merge != Merge::by_hardware) {
      const unsigned first = __shfl_sync(all_lanes, cell[0], 0);
      bool same = true;
#pragma unroll
      for (unsigned each : cell) same = same && each == first;
      if (__all_sync(all_lanes, same)) {
        if (lane == 0) add(first, warp * Vector<T>::width);
        return;
      }
    }
#pragma unroll
    for (unsigned each : cell) {
      if constexpr (Counters::merge == Merge::equal_lanes) {
        const unsigned equal = __match_any_sync(all_lanes, each);
        if (lane + 1 == __ffs(equal)) add(each, __popc(equal));
      } else {
        add(each, 1);
      }
    }
  }

  /// The block takes every gridDim.x-th tile of a range, from tile `first` on, and the elements
  /// behind the last tile if it is their turn.
  __device__ void add(Range range, std::uint64_t first) {
    const T* const elements = args.elements + range.first;
    const std::uint64_t tiles = range.count / tile_elements<T>;
    const auto load = [&](Vector<T>(&to)[flight], std::uint64_t tile) {
      const auto* from = reinterpret_cast<const Vector<T>*>(elements + tile * tile_elements<T>);
#pragma unroll
      for (unsigned i = 0; i < flight; ++i) to[i] = from[i * threads + threadIdx.x];
    };
    Vector<T> now[flight], next[flight];
    std::uint64_t tile = first;
    if (tile < tiles) load(now, tile);
    for (; tile < tiles; tile += gridDim.x) {
      if (tile + gridDim.x < tiles) load(next, tile + gridDim.x);
      make_room();
#pragma unroll
      for (unsigned i = 0; i < flight; ++i) {
        add(now[i]);
        now[i] = next[i];
      }
    }
    if (tile != tiles) return;
    make_room();
    for (std::uint64_t i = tiles * tile_elements<T> + threadIdx.x; i < range.count; i += threads) {
      add(cell_of(elements[i]), 1);
    }
  }

  /// Before the elements of a tile are added.
  __device__ void make_room() {
    added += tile_elements<T>;
    if (added <= 1U << 15) return;
    counters.make_room(shared, args.counts);
    added = tile_elements<T>;
  }

  /// Adds all counters to those in device memory.
  __device__ void flush() {
    for (unsigned cell = threadIdx.x; cell < counters.cells; cell += threads) {
      add_to(args.counts + cell, counters.number(shared, cell));
    }
#pragma unroll
    for (unsigned i = 0; i < outside_counters; ++i) {
      unsigned sum = outside[i];
      for (unsigned far = warp / 2; far > 0; far /= 2) sum += __shfl_down_sync(all_lanes, sum, far);
      if (threadIdx.x % warp == 0) add_to(args.counts + counters.cells + i, sum);
    }
  }
};

template <class T, class Counters>
__global__ void __launch_bounds__(threads) count_elements(const __grid_constant__ CountArgs<T> args,
                                                          const Counters counters, unsigned words) {
  extern __shared__ uint4 shared[];
  static_assert(std::is_same_v<Counters, Wide> || tile_elements<T> <= 1U << 15);
  auto* const zeros = reinterpret_cast<unsigned*>(shared);
  for (unsigned i = threadIdx.x; i < words; i += threads) zeros[i] = 0;
  __syncthreads();
  Block<T, Counters> block{args, counters, zeros};
  for (unsigned i = 0; i < args.ranges; ++i) {
    // Short ranges begin with different blocks.
    block.add(args.range[i], (blockIdx.x + i * gridDim.x / args.ranges) % gridDim.x);
  }
  __syncthreads();
  block.flush();
}

template <class T, class Counters>
void launch(const CountArgs<T>& args, const Counters& counters, CudaStream stream) {
  const auto kernel = count_elements<T, Counters>;
  const std::size_t bytes = counters.bytes();
  std::uint64_t tiles = 0, elements = 0;
  for (unsigned i = 0; i < args.ranges; ++i) {
    tiles += ceil_div(args.range[i].count, tile_elements<T>);
    elements += args.range[i].count;
  }
  const std::uint64_t fitting = resident_blocks(kernel, threads, bytes);
  // Counters of 32 bits take a block's share of the elements.
  const std::uint64_t blocks =
      std::max({std::min(fitting, tiles), elements >> 31, std::uint64_t{1}});
  kernel<<<static_cast<unsigned>(blocks), threads, bytes, stream>>>(
      args, counters, static_cast<unsigned>(bytes / 4));
}

}  // namespace

template <class T>
void count(const CountArgs<T>& args, CudaStream stream) {
  const unsigned cells = args.cells.count();
  if constexpr (sizeof(T) == 1) {
    launch(args, Wide(cells), stream);
  } else {
    const auto shared =
        static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
    if (Wide(cells).bytes() <= shared) {
      launch(args, Wide(cells), stream);
    } else if (Narrow(cells).bytes() <= shared) {
      launch(args, Narrow(cells), stream);
    } else {
      launch(args, None(cells), stream);
    }
  }
}

template void count(const CountArgs<float>&, CudaStream);
template void count(const CountArgs<double>&, CudaStream);
template void count(const CountArgs<std::int32_t>&, CudaStream);
template void count(const CountArgs<std::int64_t>&, CudaStream);
template void count(const CountArgs<std::int8_t>&, CudaStream);
template void count(const CountArgs<std::uint8_t>&, CudaStream);
template void count(const CountArgs<std::uint64_t>&, CudaStream);

}  // namespace shardstream::workloads::histogram::cuda
