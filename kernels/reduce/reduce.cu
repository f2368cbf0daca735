#include "kernels/reduce/cuda.hpp"
#include "kernels/reduce/join.cuh"

namespace shardstream::reduce::cuda {
namespace {

/// Rows that a thread loads before it uses the first.
inline constexpr unsigned flight = 16;
template <class T>
inline constexpr unsigned threads = lanes / lanes_per_thread<T>;

/// Block b makes leaf b.
template <class T, bool Extremes, bool Variance>
__global__ void __launch_bounds__(threads<T>, 1024 / threads<T>)
    reduce_stretch(const __grid_constant__ ReduceArgs<T> args) {
  __shared__ alignas(16) unsigned char
      shared[std::max<std::size_t>(leaf_scratch<lanes>, pairs_in_group * sizeof(PartialOf<T>))];
  const std::uint64_t offset = blockIdx.x * leaf_elements, left = args.count - offset;
  const auto count = static_cast<unsigned>(left < leaf_elements ? left : leaf_elements);
  const PartialOf<T> leaf = reduce_leaf<T, lanes, Extremes, Variance, flight>(
      args.elements + offset, count, static_cast<std::int64_t>(args.first + offset), args.want,
      shared);
  if (threadIdx.x == 0) {
    args.leaves[blockIdx.x] = leaf;
    for (unsigned i = 0; i < args.sample_count; ++i) {
      if (args.sampled[i] == blockIdx.x) args.samples[i] = leaf;
    }
  }
  join_leaf<threads<T>>(args, leaf, reinterpret_cast<PartialOf<T>*>(shared));
}

template <class T, bool Extremes, bool Variance>
void launch(const ReduceArgs<T>& args, CudaStream stream) {
  const std::uint64_t leaves = (args.count + leaf_elements - 1) / leaf_elements;
  reduce_stretch<T, Extremes, Variance>
      <<<static_cast<unsigned>(leaves), threads<T>, 0, stream>>>(args);
}

}  // namespace

template <class T>
void reduce(const ReduceArgs<T>& args, CudaStream stream) {
  if (args.want.extremes) {
    args.want.variance ? launch<T, true, true>(args, stream) : launch<T, true, false>(args, stream);
  } else {
    args.want.variance ? launch<T, false, true>(args, stream)
                       : launch<T, false, false>(args, stream);
  }
}

template void reduce(const ReduceArgs<float>&, CudaStream);
template void reduce(const ReduceArgs<double>&, CudaStream);
template void reduce(const ReduceArgs<std::int32_t>&, CudaStream);
template void reduce(const ReduceArgs<std::int64_t>&, CudaStream);
template void reduce(const ReduceArgs<std::uint8_t>&, CudaStream);

}  // namespace shardstream::reduce::cuda
