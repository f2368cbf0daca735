// The launchers of all kernels of cells.hpp on a GPU.
#pragma once

#include "kernels/cells/cells.cuh"
#include "kernels/cells/tree.hpp"

namespace shardstream::cells::cuda {
namespace {

/// A block of join_many joins the parts of neighbouring cells, so that it reads whole sectors.
constexpr unsigned block_cells = 4, block_parts = 64;

template <class T, class Q>
__global__ void __launch_bounds__(threads) clear_accumulators(const ClearArgs<T> args) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * threads + threadIdx.x;
  if (i < args.accumulators.values) {
    Accumulator<T>{}.store(Q(args.quantities), args.accumulators.words + i,
                           args.accumulators.values);
  }
}

/// Many parts: 64 threads for each cell of a unit and a group. A thread joins neighbouring parts.
template <class T, class Q>
__global__ void __launch_bounds__(block_cells* block_parts, is_fixed<Q> ? 2 : 1)
    join_many(const JoinArgs<T> args) {
  constexpr unsigned size = block_cells * block_parts;
  __shared__ std::uint64_t moved[max_words<T, Q> * size];
  const Q quantities(args.quantities);
  const std::uint64_t count = args.units * args.groups * args.unit_cells;
  const std::uint64_t i = std::uint64_t{blockIdx.x} * block_cells + threadIdx.x % block_cells;
  const unsigned part = threadIdx.x / block_cells;
  const std::uint64_t each = args.parts / block_parts;
  const JoinPlace place(args, i < count ? i : count - 1);
  Moments<T> m;
  if (i < count) {
    m = join_parts(args, quantities, place.first_part + part * each * args.step, each);
  }
  for (unsigned distance = 1; distance < block_parts; distance *= 2) {
    m.store(quantities, moved + threadIdx.x, size);
    __syncthreads();
    if (part % (2 * distance) == 0) {
      m = join(quantities, m,
               Moments<T>::load(quantities, moved + threadIdx.x + distance * block_cells, size));
    }
    __syncthreads();
  }
  if (part == 0 && i < count) {
    store_joined(args, quantities, place, m);
  }
}

/// Few parts: one thread for each cell of a unit and a group.
template <class T, class Q>
__global__ void __launch_bounds__(threads, is_fixed<Q> ? 3 : 2) join_few(const JoinArgs<T> args) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= args.units * args.groups * args.unit_cells) return;
  const Q quantities(args.quantities);
  const JoinPlace place(args, i);
  store_joined(args, quantities, place, join_parts(args, quantities, place.first_part, args.parts));
}

template <class T, class Q>
__global__ void __launch_bounds__(threads, 3)
    fold_outputs(const __grid_constant__ FoldArgs<T> args) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * threads + threadIdx.x;
  if (i < args.outputs.groups.count * args.outputs.cells.count)
    fold_output(args, Q(args.quantities), i);
}

template <class T, class Q>
__global__ void __launch_bounds__(threads) pack_outputs(const __grid_constant__ PackArgs<T> args) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * threads + threadIdx.x;
  if (i < args.ranks * args.depth * args.tile) pack_output(args, Q(args.quantities), i);
}

unsigned blocks_for(std::uint64_t count) {
  return static_cast<unsigned>((count + threads - 1) / threads);
}

}  // namespace

template <class T>
void Launchers<T>::accumulate(const AccumulateArgs<T>& args, CudaStream stream) {
  launch_accumulate(args, stream);
}

template <class T>
void Launchers<T>::join(const JoinArgs<T>& args, CudaStream stream) {
  const std::uint64_t count = args.units * args.groups * args.unit_cells;
  if (count == 0) return;
  with_common_quantities(args.quantities, [&](auto quantities) {
    using Q = decltype(quantities);
    if (args.parts >= block_parts) {
      const auto blocks = static_cast<unsigned>((count + block_cells - 1) / block_cells);
      join_many<T, Q><<<blocks, block_cells * block_parts, 0, stream>>>(args);
    } else {
      join_few<T, Q><<<blocks_for(count), threads, 0, stream>>>(args);
    }
  });
}

template <class T>
void Launchers<T>::clear(const ClearArgs<T>& args, CudaStream stream) {
  if (args.accumulators.values == 0) return;
  with_common_quantities(args.quantities, [&](auto quantities) {
    using Q = decltype(quantities);
    clear_accumulators<T, Q><<<blocks_for(args.accumulators.values), threads, 0, stream>>>(args);
  });
}

template <class T>
void Launchers<T>::fold(const FoldArgs<T>& args, CudaStream stream) {
  const std::uint64_t count = args.outputs.groups.count * args.outputs.cells.count;
  if (count == 0) return;
  with_common_quantities(args.quantities, [&](auto quantities) {
    using Q = decltype(quantities);
    fold_outputs<T, Q><<<blocks_for(count), threads, 0, stream>>>(args);
  });
}

template <class T>
void Launchers<T>::pack(const PackArgs<T>& args, CudaStream stream) {
  const std::uint64_t count = args.ranks * args.depth * args.tile;
  if (count == 0) return;
  with_common_quantities(args.quantities, [&](auto quantities) {
    using Q = decltype(quantities);
    pack_outputs<T, Q><<<blocks_for(count), threads, 0, stream>>>(args);
  });
}

}  // namespace shardstream::cells::cuda
