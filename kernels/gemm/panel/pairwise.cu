#include <type_traits>

#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/panel/pairwise.hpp"
#include "kernels/gemm/panel/rounding.hpp"

namespace shardstream::gemm::cuda {
namespace {

constexpr unsigned warp = 32, threads = 256;

template <class T>
__device__ double value(const void* sums, std::uint64_t at) {
  return sums == nullptr ? 0 : static_cast<double>(static_cast<const T*>(sums)[at]);
}

/// Makes one element, and returns its sensitivity.
template <class T>
__device__ double finish_element(const PairwiseArgs& args, const detail::PairRule& rule,
                                 std::uint64_t r, std::uint64_t c) {
  using Count = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  const std::uint64_t at = r * args.ld + c;
  const detail::PairSums sums{value<T>(args.products, at),    value<T>(args.counts, at),
                              value<T>(args.row_sums, at),    value<T>(args.column_sums, at),
                              value<T>(args.row_squares, at), value<T>(args.column_squares, at)};
  const double row_factor = args.row_factors == nullptr ? 1 : args.row_factors[r];
  const double column_factor = args.column_factors == nullptr ? 1 : args.column_factors[c];
  const auto made = detail::has_weight(args, r, c)
                        ? detail::pair_element(sums, rule, row_factor * column_factor,
                                               [](double x) { return sqrt(x); })
                        : detail::PairElement{0, 0};
  const auto rounded = static_cast<T>(made.value);
  static_cast<T*>(args.products)[at] =
      rule.scales ? correlation(rounded, args.diagonal && r == c) : rounded;
  static_cast<Count*>(args.counts)[at] = static_cast<Count>(sums.count);
  return made.sensitivity;
}

/// A thread has one element. The maximum does not depend on the order of the warps.
template <class T>
__global__ void __launch_bounds__(threads)
    finish_pairs(PairwiseArgs args, detail::PairRule rule, std::uint64_t blocks_a_row) {
  const std::uint64_t r = blockIdx.x / blocks_a_row;
  const std::uint64_t c = blockIdx.x % blocks_a_row * threads + threadIdx.x;
  double largest = c < args.columns ? finish_element<T>(args, rule, r, c) : 0;
  if (!(largest > 0)) largest = 0;  // NaN
#pragma unroll
  for (unsigned distance = warp / 2; distance > 0; distance /= 2) {
    largest = fmax(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
  }
  if (threadIdx.x % warp != 0 || largest == 0) return;
  // As integers, positive doubles have the order of their values.
  atomicMax(reinterpret_cast<unsigned long long*>(args.sensitivity),
            static_cast<unsigned long long>(__double_as_longlong(largest)));
}

}  // namespace

void pairwise(const PairwiseArgs& args, CudaStream stream) {
  if (args.rows == 0 || args.columns == 0) return;
  const std::uint64_t across = (args.columns + threads - 1) / threads;
  const detail::PairRule rule = detail::rule_of(args);
  with_rounded_type(args.precision, [&](auto of) {
    finish_pairs<typename decltype(of)::type>
        <<<static_cast<unsigned>(args.rows * across), threads, 0, stream>>>(args, rule, across);
  });
}

}  // namespace shardstream::gemm::cuda
