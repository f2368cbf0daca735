#include "kernels/reduce/reduce.hpp"

#include <algorithm>

#include "kernels/reduce/leaf.hpp"
#include "kernels/reduce/tree.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::reduce {
namespace {

template <class T>
SHARDSTREAM_VECTOR_CLONES PartialOf<T> leaf(const T* x, unsigned count, std::int64_t first,
                                            Want want) {
  return reduce_leaf<T, lanes>(x, count, first, want);
}

/// A part takes a contiguous share of the leaves.
template <class T>
void leaves_host(const LeavesArgs<T>& args, unsigned part, unsigned parts) {
  const std::uint64_t leaves = (args.count + leaf_elements - 1) / leaf_elements;
  for (std::uint64_t i = leaves * part / parts; i < leaves * (part + 1) / parts; ++i) {
    const std::uint64_t offset = i * leaf_elements;
    const auto count = static_cast<unsigned>(std::min(leaf_elements, args.count - offset));
    // Copied, since ThreadSanitizer does not see what a call writes where its result goes.
    const PartialOf<T> one = leaf(args.elements + offset, count,
                                  static_cast<std::int64_t>(args.first + offset), args.want);
    args.leaves[i] = one;
  }
}

/// Few nodes, so one part does it all.
template <class T>
void join_host(const JoinArgs<T>& args, unsigned part, unsigned) {
  if (part != 0) return;
  TreeFold<T> tree;
  for (std::uint64_t i = 0; i < args.stretch.count; ++i) {
    tree.push({args.stretch.first + i, 0}, args.leaves[i]);
  }
  for (std::size_t i = 0; i < tree.nodes().size(); ++i) args.largest[i] = tree.nodes()[i].partial;
  for (unsigned i = 0; i < args.sample_count; ++i) args.samples[i] = args.leaves[args.sampled[i]];
}

}  // namespace

template <class T>
Kernel<LeavesArgs<T>> leaves_kernel() {
  return {"reduce_leaves", leaves_host<T>, with_cuda<cuda::leaves<T>>()};
}
template <class T>
Kernel<JoinArgs<T>> join_kernel() {
  return {"reduce_join", join_host<T>, with_cuda<cuda::join<T>>()};
}

template Kernel<LeavesArgs<float>> leaves_kernel();
template Kernel<LeavesArgs<double>> leaves_kernel();
template Kernel<LeavesArgs<std::int32_t>> leaves_kernel();
template Kernel<LeavesArgs<std::int64_t>> leaves_kernel();
template Kernel<LeavesArgs<std::int8_t>> leaves_kernel();
template Kernel<LeavesArgs<std::uint8_t>> leaves_kernel();
template Kernel<JoinArgs<double>> join_kernel();
template Kernel<JoinArgs<std::int64_t>> join_kernel();

}  // namespace shardstream::reduce
