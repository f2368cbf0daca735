#include "kernels/reduce/cuda.hpp"
#include "kernels/reduce/leaf.cuh"

namespace shardstream::reduce::cuda {
namespace {

/// Rows that a thread loads before it uses the first.
inline constexpr unsigned flight = 16;

template <class T, bool Extremes, bool Variance>
void launch_leaves(const LeavesArgs<T>& args, CudaStream stream) {
  const std::uint64_t leaves = (args.count + leaf_elements - 1) / leaf_elements;
  reduce_leaves<T, lanes, Extremes, Variance, flight>
      <<<static_cast<unsigned>(leaves), lanes / lanes_per_thread<T>, 0, stream>>>(
          args, static_cast<unsigned>(leaf_elements));
}

/// Levels that one launch folds: a block takes 2^levels nodes of its lowest level.
inline constexpr unsigned levels = 10;

/// Block b folds the pairs inside one aligned segment of 2^(base + levels) leaves, level by level.
template <class T>
__global__ void fold_segments(FoldArgs<T> args, unsigned base, std::uint64_t first_segment) {
  const std::uint64_t segment = first_segment + blockIdx.x;
  const std::uint64_t begin = segment << (base + levels), end = (segment + 1) << (base + levels);
  const std::uint64_t last = args.first_leaf + args.count;
  for (unsigned level = base; level < base + levels; ++level) {
    const std::uint64_t width = std::uint64_t{1} << level, pair = 2 * width;
    for (std::uint64_t i = begin + threadIdx.x * pair; i < end; i += blockDim.x * pair) {
      if (i < args.first_leaf || i + pair > last) continue;
      Partial<T>* node = args.partials + (i - args.first_leaf);
      *node = combine(node[0], node[width]);
    }
    __syncthreads();
  }
}

template <class T>
__global__ void pick_places(PickArgs<T> args) {
  const unsigned i = threadIdx.x;
  if (i < args.count) args.to[i] = args.from[args.places[i]];
}

}  // namespace

template <class T>
void leaves(const LeavesArgs<T>& args, CudaStream stream) {
  if (args.want.extremes) {
    args.want.variance ? launch_leaves<T, true, true>(args, stream)
                       : launch_leaves<T, true, false>(args, stream);
  } else {
    args.want.variance ? launch_leaves<T, false, true>(args, stream)
                       : launch_leaves<T, false, false>(args, stream);
  }
}

template <class T>
void fold(const FoldArgs<T>& args, CudaStream stream) {
  for (unsigned base = 0; (std::uint64_t{2} << base) <= args.count; base += levels) {
    const std::uint64_t first = args.first_leaf >> (base + levels);
    const std::uint64_t last = (args.first_leaf + args.count - 1) >> (base + levels);
    fold_segments<<<static_cast<unsigned>(last - first + 1), 256, 0, stream>>>(args, base, first);
  }
}

template <class T>
void pick(const PickArgs<T>& args, CudaStream stream) {
  pick_places<<<1, PickArgs<T>::most, 0, stream>>>(args);
}

template void leaves(const LeavesArgs<float>&, CudaStream);
template void leaves(const LeavesArgs<double>&, CudaStream);
template void leaves(const LeavesArgs<std::int32_t>&, CudaStream);
template void leaves(const LeavesArgs<std::int64_t>&, CudaStream);
template void leaves(const LeavesArgs<std::uint8_t>&, CudaStream);
template void fold(const FoldArgs<double>&, CudaStream);
template void fold(const FoldArgs<std::int64_t>&, CudaStream);
template void pick(const PickArgs<double>&, CudaStream);
template void pick(const PickArgs<std::int64_t>&, CudaStream);

}  // namespace shardstream::reduce::cuda
