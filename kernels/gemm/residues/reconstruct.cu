#include <cstdint>
#include <limits>

#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/residues/scales.hpp"

namespace shardstream::gemm::cuda {
namespace {

constexpr unsigned threads = 256, width = 4;

template <class T>
struct alignas(16) Elements {
  T element[width];
};

/// A line that is not finite makes the element NaN, or needs the panels.
template <class T>
__device__ T product_of_others(const ReconstructArgs& args, std::uint64_t row,
                               std::uint64_t column) {
  if (args.a_exponents[row] == has_nan || args.b_exponents[column] == has_nan) {
    return std::numeric_limits<T>::quiet_NaN();
  }
  return detail::product_of_lines(static_cast<const T*>(args.a) + row * args.lda,
                                  static_cast<const T*>(args.b) + column, args.ldb, args.k);
}

/// A thread computes neighbouring elements of a row.
template <class T, class Word>
__global__ void __launch_bounds__(threads)
    reconstruct_elements(const __grid_constant__ ReconstructArgs args,
                         const __grid_constant__ Basis basis) {
  const std::uint64_t elements = args.rows * args.columns;
  const std::uint64_t at = (std::uint64_t{blockIdx.x} * threads + threadIdx.x) * width;
  if (at >= elements) return;
  const std::uint64_t row = at / args.columns, column = at % args.columns;
  detail::IntegerSum<Word> sums[width];
#pragma unroll 4
  for (unsigned t = 0; t < basis.count; ++t) {
    const int4 products = __ldcs(reinterpret_cast<const int4*>(args.products + t * elements + at));
    const Modulus& m = basis.moduli[t];
    sums[0].add(products.x, m);
    sums[1].add(products.y, m);
    sums[2].add(products.z, m);
    sums[3].add(products.w, m);
  }
  auto* const c = reinterpret_cast<Elements<T>*>(static_cast<T*>(args.c) + at);
  Elements<T> result{};
  if (!args.first) result = *c;
  const std::int32_t of_a = args.a_exponents[row];
#pragma unroll
  for (unsigned i = 0; i < width; ++i) {
    const std::int32_t of_b = args.b_exponents[column + i];
    const bool is_finite = of_a < has_infinity && of_b < has_infinity;
    const T product = is_finite ? detail::rounded_integer<T>(sums[i].integer(basis), -(of_a + of_b))
                                : product_of_others<T>(args, row, column + i);
    result.element[i] = args.first ? product : result.element[i] + product;
  }
  *c = result;
}

}  // namespace

void reconstruct(const ReconstructArgs& args, CudaStream stream) {
  const std::uint64_t packs = args.rows * args.columns / width;
  if (packs == 0) return;
  const auto blocks = static_cast<unsigned>((packs + threads - 1) / threads);
  const Basis& basis = basis_with(args.moduli);
  with_host_panel_type(args.precision, [&](auto of) {
    using T = typename decltype(of)::type;
    if (basis.is_narrow()) {
      reconstruct_elements<T, std::uint64_t><<<blocks, threads, 0, stream>>>(args, basis);
    } else {
      reconstruct_elements<T, UInt128><<<blocks, threads, 0, stream>>>(args, basis);
    }
  });
}

}  // namespace shardstream::gemm::cuda
