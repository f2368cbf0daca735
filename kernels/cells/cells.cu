#include "kernels/cells/cells.cuh"
#include "kernels/cells/tree.hpp"

namespace shardstream::cells::cuda {
namespace {

/// Threads that join the lanes of a cell, if there are many lanes.
constexpr unsigned lane_threads = 128;

template <class T, Set S>
__global__ void __launch_bounds__(threads) clear_accumulators(const ClearArgs<T> args) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * threads + threadIdx.x;
  if (i < args.accumulators.values) {
    Accumulator<T, S>{}.store(args.accumulators.words + i, args.accumulators.values);
  }
}

/// One block per cell of a unit and a group. Each thread joins neighbouring lanes.
template <class T, Set S>
__global__ void __launch_bounds__(lane_threads, 3) join_many_lanes(const JoinLanesArgs<T> args) {
  __shared__ std::uint64_t moved[words_of<T, S> * lane_threads];
  const LanePlace place(args, blockIdx.x);
  const unsigned t = threadIdx.x;
  const std::uint64_t each = args.lanes / lane_threads;
  Moments<T, S> m = cells::join_lanes<T, S>(
      args.accumulators, place.accumulator + t * each * args.unit_cells, args.unit_cells, each);
  for (unsigned distance = 1; distance < lane_threads; distance *= 2) {
    m.store(moved + t, lane_threads);
    __syncthreads();
    if (t % (2 * distance) == 0) {
      m = join(m, Moments<T, S>::load(moved + t + distance, lane_threads));
    }
    __syncthreads();
  }
  if (t == 0) m.store(args.moments.words + place.moments, args.moments.values);
}

/// One thread per cell of a unit and a group.
template <class T, Set S>
__global__ void __launch_bounds__(threads, 3) join_few_lanes(const JoinLanesArgs<T> args) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= args.units * args.groups * args.unit_cells) return;
  const LanePlace place(args, i);
  cells::join_lanes<T, S>(args.accumulators, place.accumulator, args.unit_cells, args.lanes)
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
void Launchers<T>::join_lanes(const JoinLanesArgs<T>& args, CudaStream stream) {
  const std::uint64_t count = args.units * args.groups * args.unit_cells;
  if (count == 0) return;
  with_set(args.set, [&](auto set) {
    if (args.lanes >= lane_threads) {
      join_many_lanes<T, set()><<<static_cast<unsigned>(count), lane_threads, 0, stream>>>(args);
    } else {
      join_few_lanes<T, set()><<<blocks_for(count), threads, 0, stream>>>(args);
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

template struct Launchers<float>;
template struct Launchers<double>;
template struct Launchers<std::int32_t>;
template struct Launchers<std::int64_t>;
template struct Launchers<std::int8_t>;
template struct Launchers<std::uint8_t>;
template struct Launchers<std::uint64_t>;

}  // namespace shardstream::cells::cuda
