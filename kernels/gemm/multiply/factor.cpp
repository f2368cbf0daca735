#include "kernels/gemm/multiply/factor.hpp"

#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/panel/rounding.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::gemm {
namespace {

SHARDSTREAM_VECTOR_CLONES
void split_row(const float* __restrict x, std::uint64_t count, float* __restrict high,
               float* __restrict again, float* __restrict low) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const float first = detail::high_part(x[i]);
    high[i] = first;
    again[i] = first;
    low[i] = detail::low_part(x[i], first);
  }
}

void split(const SplitArgs& args, unsigned part, unsigned parts) {
  const Rows rows = rows_of(args.rows, part, parts);
  const std::uint64_t pitch = args.side == Side::b ? args.columns : 3 * args.columns;
  const std::uint64_t block = args.side == Side::b ? args.rows * args.columns : args.columns;
  for (std::uint64_t r = rows.begin; r < rows.end; ++r) {
    const float* const x = static_cast<const float*>(args.panel) + r * args.ld;
    float* const out = static_cast<float*>(args.factor) + r * pitch;
    float* const first = out + (args.side == Side::b ? 0 : block);
    float* const low = out + (args.side == Side::b ? block : 0);
    split_row(x, args.columns, first, out + 2 * block, low);
  }
}

template <class T>
SHARDSTREAM_VECTOR_CLONES void add_all(const T* left, const T* right, std::uint64_t count, T* sum) {
  for (std::uint64_t i = 0; i < count; ++i) sum[i] = left[i] + right[i];
}

void add(const AddArgs& args, unsigned part, unsigned parts) {
  const Rows some = rows_of(args.count, part, parts);
  with_accumulator_type(args.precision, [&](auto of) {
    using T = typename decltype(of)::type;
    add_all(static_cast<const T*>(args.left) + some.begin,
            static_cast<const T*>(args.right) + some.begin, some.end - some.begin,
            static_cast<T*>(args.sum) + some.begin);
  });
}

}  // namespace

Kernel<SplitArgs> split_kernel() {
  return {"gemm_split", split, with_cuda<cuda::split>()};
}
Kernel<AddArgs> add_kernel() {
  return {"gemm_add", add, with_cuda<cuda::add>()};
}

}  // namespace shardstream::gemm
