#include "kernels/reduce/reduce.hpp"

#include <algorithm>

#include "kernels/reduce/cuda.hpp"
#include "kernels/reduce/leaf.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::reduce {
namespace {

SHARDSTREAM_VECTOR_CLONES
PartialOf<float> leaf(const float* x, unsigned count, std::int64_t first, Want want) {
  return reduce_leaf<float, lanes>(x, count, first, want);
}
SHARDSTREAM_VECTOR_CLONES
PartialOf<double> leaf(const double* x, unsigned count, std::int64_t first, Want want) {
  return reduce_leaf<double, lanes>(x, count, first, want);
}
SHARDSTREAM_VECTOR_CLONES
PartialOf<std::int32_t> leaf(const std::int32_t* x, unsigned count, std::int64_t first, Want want) {
  return reduce_leaf<std::int32_t, lanes>(x, count, first, want);
}
SHARDSTREAM_VECTOR_CLONES
PartialOf<std::int64_t> leaf(const std::int64_t* x, unsigned count, std::int64_t first, Want want) {
  return reduce_leaf<std::int64_t, lanes>(x, count, first, want);
}
SHARDSTREAM_VECTOR_CLONES
PartialOf<std::uint8_t> leaf(const std::uint8_t* x, unsigned count, std::int64_t first, Want want) {
  return reduce_leaf<std::uint8_t, lanes>(x, count, first, want);
}

/// A part takes a contiguous share of the leaves.
template <class T>
void leaves_host(const LeavesArgs<T>& args, unsigned part, unsigned parts) {
  const std::uint64_t leaves = (args.count + leaf_elements - 1) / leaf_elements;
  for (std::uint64_t i = leaves * part / parts; i < leaves * (part + 1) / parts; ++i) {
    const std::uint64_t offset = i * leaf_elements;
    const auto count = static_cast<unsigned>(std::min(leaf_elements, args.count - offset));
    args.partials[i] = leaf(args.elements + offset, count,
                            static_cast<std::int64_t>(args.first + offset), args.want);
  }
}

/// Few nodes, so one part does it all.
template <class T>
void fold_host(const FoldArgs<T>& args, unsigned part, unsigned) {
  if (part != 0) return;
  const std::uint64_t end = args.first_leaf + args.count;
  for (std::uint64_t width = 1; 2 * width <= args.count; width *= 2) {
    const std::uint64_t pair = 2 * width;
    for (std::uint64_t i = (args.first_leaf + pair - 1) / pair * pair; i + pair <= end; i += pair) {
      Partial<T>* node = args.partials + (i - args.first_leaf);
      *node = combine(*node, node[width]);
    }
  }
}

template <class T>
void pick_host(const PickArgs<T>& args, unsigned part, unsigned) {
  if (part != 0) return;
  for (unsigned i = 0; i < args.count; ++i) args.to[i] = args.from[args.places[i]];
}

}  // namespace

template <class T>
Kernel<LeavesArgs<T>> leaves_kernel() {
  return {"reduce_leaves", leaves_host<T>, with_cuda<cuda::leaves<T>>()};
}
template <class T>
Kernel<FoldArgs<T>> fold_kernel() {
  return {"reduce_fold", fold_host<T>, with_cuda<cuda::fold<T>>()};
}
template <class T>
Kernel<PickArgs<T>> pick_kernel() {
  return {"reduce_pick", pick_host<T>, with_cuda<cuda::pick<T>>()};
}

template Kernel<LeavesArgs<float>> leaves_kernel();
template Kernel<LeavesArgs<double>> leaves_kernel();
template Kernel<LeavesArgs<std::int32_t>> leaves_kernel();
template Kernel<LeavesArgs<std::int64_t>> leaves_kernel();
template Kernel<LeavesArgs<std::uint8_t>> leaves_kernel();
template Kernel<FoldArgs<double>> fold_kernel();
template Kernel<FoldArgs<std::int64_t>> fold_kernel();
template Kernel<PickArgs<double>> pick_kernel();
template Kernel<PickArgs<std::int64_t>> pick_kernel();

}  // namespace shardstream::reduce
