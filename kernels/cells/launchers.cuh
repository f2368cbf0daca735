// The launchers of all kernels of cells.hpp on a GPU.
#pragma once

#include "kernels/cells/cells.cuh"
#include "kernels/cells/tree.hpp"

namespace shardstream::cells::cuda {
namespace {

/// A block of join_many joins the parts of neighbouring cells, so that it reads whole sectors.
constexpr unsigned block_cells = 4, block_parts = 64;

template <class T, Set S>
__global__ void __launch_bounds__(threads) clear_accumulators(const ClearArgs<T> args) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * threads + threadIdx.x;
  if (i < args.accumulators.values) {
    Accumulator<T, S>{}.store(args.accumulators.words + i, args.accumulators.values);
  }
}

/// Many parts: 64 threads for each cell of a unit and a group. A thread joins neighbouring parts.
template <class T, Set S>
__global__ void __launch_bounds__(block_cells* block_parts, has_powers(S) ? 1 : 2)
    join_many(const JoinArgs<T> args) {
  constexpr unsigned size = block_cells * block_parts;
  __shared__ std::uint64_t moved[words_of<T, S> * size];
  const std::uint64_t count = args.units * args.groups * args.unit_cells;
  const std::uint64_t i = std::uint64_t{blockIdx.x} * block_cells + threadIdx.x % block_cells;
  const unsigned part = threadIdx.x / block_cells;
  const std::uint64_t each = args.parts / block_parts;
  const JoinPlace place(args, i < count ? i : count - 1);
  Moments<T, S> m;
  if (i < count) m = join_parts<T, S>(args, place.first_part + part * each * args.step, each);
  for (unsigned distance = 1; distance < block_parts; distance *= 2) {
    m.store(moved + threadIdx.x, size);
    __syncthreads();
    if (part % (2 * distance) == 0) {
      m = join(m, Moments<T, S>::load(moved + threadIdx.x + distance * block_cells, size));
    }
    __syncthreads();
  }
  if (part == 0 && i < count) m.store(args.moments.words + place.moments, args.moments.values);
}

/// Few parts: one thread for each cell of a unit and a group.
template <class T, Set S>
__global__ void __launch_bounds__(threads, 3) join_few(const JoinArgs<T> args) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= args.units * args.groups * args.unit_cells) return;
  const JoinPlace place(args, i);
  join_parts<T, S>(args, place.first_part, args.parts)
      .store(args.moments.words + place.moments, args.moments.values);
}

template <class T, Set S>
__global__ void __launch_bounds__(threads, 3)
    fold_outputs(const __grid_constant__ FoldArgs<T> args) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * threads + threadIdx.x;
  if (i < args.groups * args.cells.count) fold_output<T, S>(args, i);
}

template <class T, Set S>
__global__ void __launch_bounds__(threads) pack_outputs(const __grid_constant__ PackArgs<T> args) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * threads + threadIdx.x;
  if (i < args.ranks * args.depth * args.tile) pack_output<T, S>(args, i);
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
  with_set(args.set, [&](auto set) {
    if (args.parts >= block_parts) {
      const auto blocks = static_cast<unsigned>((count + block_cells - 1) / block_cells);
      join_many<T, set()><<<blocks, block_cells * block_parts, 0, stream>>>(args);
    } else {
      join_few<T, set()><<<blocks_for(count), threads, 0, stream>>>(args);
    }
  });
}

template <class T>
void Launchers<T>::clear(const ClearArgs<T>& args, CudaStream stream) {
  if (args.accumulators.values == 0) return;
  with_set(args.set, [&](auto set) {
    clear_accumulators<T, set()>
        <<<blocks_for(args.accumulators.values), threads, 0, stream>>>(args);
  });
}

template <class T>
void Launchers<T>::fold(const FoldArgs<T>& args, CudaStream stream) {
  if (args.groups * args.cells.count == 0) return;
  with_set(args.set, [&](auto set) {
    fold_outputs<T, set()>
        <<<blocks_for(args.groups * args.cells.count), threads, 0, stream>>>(args);
  });
}

template <class T>
void Launchers<T>::pack(const PackArgs<T>& args, CudaStream stream) {
  const std::uint64_t count = args.ranks * args.depth * args.tile;
  if (count == 0) return;
  with_set(args.set, [&](auto set) {
    pack_outputs<T, set()><<<blocks_for(count), threads, 0, stream>>>(args);
  });
}

}  // namespace shardstream::cells::cuda
