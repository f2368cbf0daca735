#include "kernels/reduce/leaf.cuh"
#include "kernels/reduce/reduce.hpp"

namespace shardstream::reduce::cuda {
namespace {

template <class T>
inline constexpr unsigned threads = lanes / lanes_per_thread<T>;

/// Of a kernel that was launched to overlap the one before it in the stream: waits for that one,
/// and sees what it wrote.
__device__ inline void await_kernel_before() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}
/// The kernel behind this one in the stream may be launched, once all blocks have come here.
__device__ inline void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// Block b makes leaf b.
template <class T, bool Extremes, bool Variance>
__global__ void __launch_bounds__(threads<T>) make_leaves(LeavesArgs<T> args) {
  __shared__ alignas(16) unsigned char shared[leaf_scratch<lanes>];
  let_next_kernel_start();
  const std::uint64_t offset = blockIdx.x * leaf_elements, left = args.count - offset;
  const auto count = static_cast<unsigned>(left < leaf_elements ? left : leaf_elements);
  const PartialOf<T> leaf = reduce_leaf<T, lanes, Extremes, Variance, flight<Extremes>>(
      args.elements + offset, count, static_cast<std::int64_t>(args.first + offset), args.want,
      shared);
  if (threadIdx.x == 0) args.leaves[blockIdx.x] = leaf;
}

template <class T, bool Extremes, bool Variance>
void launch_leaves(const LeavesArgs<T>& args, CudaStream stream) {
  const std::uint64_t leaves = (args.count + leaf_elements - 1) / leaf_elements;
  make_leaves<T, Extremes, Variance>
      <<<static_cast<unsigned>(leaves), threads<T>, 0, stream>>>(args);
}

/// Puts a node that is not joined with another one of the stretch into its place.
template <class T>
__device__ void keep_if_largest(const JoinArgs<T>& args, Subtree place, const Partial<T>& node) {
  if (args.stretch.join(place)) return;
  for (unsigned i = 0; i < args.subtrees.count; ++i) {
    if (args.subtrees.list[i] == place) args.largest[i] = node;
  }
}

inline constexpr unsigned pairs_in_group = 1U << (group_levels - 1);

/// Half of a block joins the nodes of 2^level leaves of one group, as far as they have a sibling in
/// the stretch; meanwhile the first block's other half copies single leaves. `nodes` begins with
/// the one that holds the stretch's first leaf; the nodes of whole groups go to `wholes`, which
/// begins likewise.
template <class T>
__global__ void __launch_bounds__(2 * pairs_in_group)
    join_groups(const __grid_constant__ JoinArgs<T> args, unsigned level, const Partial<T>* nodes,
                Partial<T>* wholes) {
  __shared__ alignas(16) unsigned char room[pairs_in_group * sizeof(Partial<T>)];
  auto* const shared = reinterpret_cast<Partial<T>*>(room);
  const unsigned t = threadIdx.x, above = level + group_levels;
  const Subtree group{((args.stretch.first >> above) + blockIdx.x) << above, above};
  const Leaves leaves = args.stretch.in_common_with(group);
  Subtree place{group.first + (std::uint64_t{t} << (level + 1)), level + 1};
  const Partial<T>* left = nodes + ((place.first >> level) - (args.stretch.first >> level));
  const Partial<T>* right = left + 1;
  await_kernel_before();
  if (t >= pairs_in_group && level == 0 && blockIdx.x == 0) {
    const unsigned i = t - pairs_in_group;
    if (i < args.sample_count) args.samples[i] = args.leaves[args.sampled[i]];
    if (i < 2) {  // the first and the last leaf may have no sibling
      const std::uint64_t leaf = i == 0 ? 0 : args.stretch.count - 1;
      keep_if_largest(args, {args.stretch.first + leaf, 0}, args.leaves[leaf]);
    }
  }
  // The other half's places lie beyond the group. Not unrolled: this runs once, so that loading the
  // code would take longer than running it.
#pragma unroll 1
  for (unsigned distance = 1; distance <= pairs_in_group; distance *= 2) {
    if (t % distance == 0 && leaves.hold(place)) {
      shared[t] = combine(*left, *right);
      keep_if_largest(args, place, shared[t]);
    }
    __syncthreads();
    left = shared + t;
    right = left + distance;
    ++place.level;
  }
  if (t == 0 && leaves.hold(group)) wholes[blockIdx.x] = shared[0];
}
static_assert(JoinArgs<double>::most_samples <= pairs_in_group, "each sample has a thread");
static_assert(sizeof(JoinArgs<double>) + 32 <= 4096, "every driver passes 4 KiB to a kernel");

/// Whether join_groups may overlap the kernel before it: only where the code that this GPU runs was
/// compiled to wait for that one, which the GPU alone does not tell.
template <class T>
bool can_overlap() {
  cudaFuncAttributes code{};
  return cudaFuncGetAttributes(&code, join_groups<T>) == cudaSuccess && code.ptxVersion >= 90;
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

/// The blocks wait on the GPU while the leaves are made, so that no time is lost between them.
template <class T>
void join(const JoinArgs<T>& args, CudaStream stream) {
  static const bool overlaps = can_overlap<T>();
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.blockDim = 2 * pairs_in_group;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = overlaps ? 1 : 0;
  const std::uint64_t first = args.stretch.first, last = args.stretch.end() - 1;
  const Partial<T>* nodes = args.leaves;
  Partial<T>* wholes = args.scratch;
  for (unsigned level = 0;; level += group_levels) {
    const unsigned above = level + group_levels;
    const std::uint64_t groups = (last >> above) - (first >> above) + 1;
    config.gridDim = static_cast<unsigned>(groups);
    // What fails is found by cudaGetLastError, as with every launch.
    (void)cudaLaunchKernelEx(&config, join_groups<T>, args, level, nodes, wholes);
    if (groups == 1) return;
    nodes = wholes;
    wholes += groups;
  }
}

template void leaves(const LeavesArgs<float>&, CudaStream);
template void leaves(const LeavesArgs<double>&, CudaStream);
template void leaves(const LeavesArgs<std::int32_t>&, CudaStream);
template void leaves(const LeavesArgs<std::int64_t>&, CudaStream);
template void leaves(const LeavesArgs<std::int8_t>&, CudaStream);
template void leaves(const LeavesArgs<std::uint8_t>&, CudaStream);
template void join(const JoinArgs<double>&, CudaStream);
template void join(const JoinArgs<std::int64_t>&, CudaStream);

}  // namespace shardstream::reduce::cuda
