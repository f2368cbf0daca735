#include "kernels/reduce/join.cuh"
#include "kernels/reduce/leaf.cuh"
#include "kernels/reduce/reduce.hpp"

namespace shardstream::reduce::cuda {
namespace {

template <class T>
inline constexpr unsigned threads = leaf_threads<T, lanes>;

/// Block b makes leaf b, and joins a group of nodes if it completes one.
template <class T, bool Extremes, bool Variance, bool Marked>
__global__ void __launch_bounds__(threads<T>, min_leaf_blocks<T, lanes, Variance>)
    reduce_batch(const __grid_constant__ BatchArgs<T> args, const Exchange exchange) {
  static_assert(threads<T> == 1U << group_levels<T>, "a thread for each node of a group");
  __shared__ alignas(16) unsigned char shared[leaf_scratch<lanes>];
  static_assert(BatchArgs<T>::max_samples <= threads<T>, "a thread for each sample");
  const unsigned t = threadIdx.x;
  const bool is_sampled = t < args.sample_count && args.sampled[t] == blockIdx.x;
  const std::uint64_t offset = blockIdx.x * leaf_elements, left = args.count - offset;
  const auto count = static_cast<unsigned>(left < leaf_elements ? left : leaf_elements);
  const PartialOf<T> leaf =
      reduce_leaf<T, lanes, Extremes, Variance, Marked, flight<T, Extremes, Marked>>(
          args.elements + offset, count, static_cast<std::int64_t>(args.first + offset), args.want,
          shared);
  auto* const made = reinterpret_cast<PartialOf<T>*>(shared);
  constexpr bool may_miss = Marked || std::is_floating_point_v<T>;
  join_batch<T, Packed<Extreme<T>, Extremes, Variance, may_miss>>(args, exchange, blockIdx.x, leaf,
                                                                  [&] {
                                                                    *made = leaf;
                                                                    args.leaves[blockIdx.x] = leaf;
                                                                  });
  __syncthreads();
  if (is_sampled) args.samples[t] = *made;
}
static_assert(sizeof(BatchArgs<double>) + sizeof(Exchange) <= 4096,
              "every driver passes 4 KiB to a kernel");

template <class T, bool Extremes, bool Variance>
void launch(const BatchArgs<T>& args, CudaStream stream) {
  auto* kernel = reduce_batch<T, Extremes, Variance, false>;
  if constexpr (std::is_integral_v<T>) {
    if (args.want.skip_missing) kernel = reduce_batch<T, true, true, true>;
  }
  kernel<<<static_cast<unsigned>(args.leaf_range().count), threads<T>, 0, stream>>>(args,
                                                                                    Exchange(args));
}

}  // namespace

template <class T>
void batch(const BatchArgs<T>& args, CudaStream stream) {
  if (args.want.extremes) {
    args.want.variance ? launch<T, true, true>(args, stream) : launch<T, true, false>(args, stream);
  } else {
    args.want.variance ? launch<T, false, true>(args, stream)
                       : launch<T, false, false>(args, stream);
  }
}

template void batch(const BatchArgs<float>&, CudaStream);
template void batch(const BatchArgs<double>&, CudaStream);
template void batch(const BatchArgs<std::int32_t>&, CudaStream);
template void batch(const BatchArgs<std::int64_t>&, CudaStream);
template void batch(const BatchArgs<std::int8_t>&, CudaStream);
template void batch(const BatchArgs<std::uint8_t>&, CudaStream);
template void batch(const BatchArgs<std::uint64_t>&, CudaStream);

}  // namespace shardstream::reduce::cuda
