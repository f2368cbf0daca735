#include "kernels/reduce/reduce.hpp"

#include <algorithm>
#include <atomic>

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

/// Joins all leaves of the batch by the tree, and copies the samples.
template <class T>
void join_leaves(const BatchArgs<T>& args) {
  const Leaves range = args.leaf_range();
  TreeFold<Extreme<T>> tree;
  for (std::uint64_t i = 0; i < range.count; ++i) {
    tree.push({range.first + i, 0}, args.leaves[i]);
  }
  for (std::size_t i = 0; i < tree.nodes().size(); ++i) args.largest[i] = tree.nodes()[i].partial;
  for (unsigned i = 0; i < args.sample_count; ++i) args.samples[i] = args.leaves[args.sampled[i]];
}

/// A part computes a contiguous share of the leaves. The part that ends last joins all of them,
/// which takes little time.
template <class T>
void batch_host(const BatchArgs<T>& args, unsigned part, unsigned parts) {
  const Rows mine = rows_of(args.leaf_range().count, part, parts);
  for (std::uint64_t i = mine.begin; i < mine.end; ++i) {
    const std::uint64_t offset = i * leaf_elements;
    const auto count = static_cast<unsigned>(std::min(leaf_elements, args.count - offset));
    // A copy, since ThreadSanitizer does not see that a call writes its result to memory.
    const PartialOf<T> one = leaf(args.elements + offset, count,
                                  static_cast<std::int64_t>(args.first + offset), args.want);
    args.leaves[i] = one;
  }
  const std::atomic_ref done(*args.exchange);
  if (done.fetch_add(1, std::memory_order_acq_rel) + 1 < parts) return;
  join_leaves(args);
  done.store(0, std::memory_order_relaxed);
}

}  // namespace

template <class T>
Kernel<BatchArgs<T>> batch_kernel() {
  return {"reduce_batch", batch_host<T>, with_cuda<cuda::batch<T>>()};
}

template Kernel<BatchArgs<float>> batch_kernel();
template Kernel<BatchArgs<double>> batch_kernel();
template Kernel<BatchArgs<std::int32_t>> batch_kernel();
template Kernel<BatchArgs<std::int64_t>> batch_kernel();
template Kernel<BatchArgs<std::int8_t>> batch_kernel();
template Kernel<BatchArgs<std::uint8_t>> batch_kernel();
template Kernel<BatchArgs<std::uint64_t>> batch_kernel();

}  // namespace shardstream::reduce
