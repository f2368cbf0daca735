#include <bit>
#include <cstdint>

#include "kernels/gemm/check.hpp"
#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/panel/element.cuh"
#include "kernels/gemm/panel/rounding.hpp"

namespace shardstream::gemm::cuda {
namespace {

constexpr unsigned threads = 256, warp = 32, warps = threads / warp;

/// Four neighbouring columns of a sample, which a thread loads at once.
constexpr unsigned width = 4;
template <class T>
struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Pack {
  T element[width];
};

/// The threads of a block as a grid: a group of `packs` neighbouring threads, a power of two, has a
/// sample, and each of these threads owns one or two packs of its columns.
struct Layout {
  unsigned packs;
  __device__ unsigned pack() const { return threadIdx.x % packs; }
  __device__ unsigned sample() const { return threadIdx.x / packs; }
  __device__ unsigned samples() const { return threads / packs; }
};

/// The sums of a thread's columns.
template <unsigned Packs>
struct Sums {
  double products[Packs][width] = {}, squares[Packs][width] = {};
};

/// Adds the samples [begin, end) to the sums of each thread's columns. Every thread loads several
/// samples before it adds the first one, so that enough loads are in flight. The partial sums of y
/// pass through the threads of a group. Samples from `end` on are zeros.
template <class T, unsigned Packs>
__device__ void add_samples(const Pack<T>* panel, unsigned packs_a_sample, std::uint64_t begin,
                            std::uint64_t end, const double (&signs)[Packs][width],
                            const Layout& layout, Sums<Packs>& sums) {
  constexpr unsigned flight = 4;
  const unsigned step = layout.samples();
  for (std::uint64_t first = begin; first < end; first += std::uint64_t{flight} * step) {
    Pack<T> x[flight][Packs];
#pragma unroll
    for (unsigned f = 0; f < flight; ++f) {
      const std::uint64_t kk = first + f * step + layout.sample();
#pragma unroll
      for (unsigned p = 0; p < Packs; ++p) {
        const unsigned pack = layout.pack() + p * layout.packs;
        x[f][p] = kk < end && pack < packs_a_sample ? panel[kk * packs_a_sample + pack] : Pack<T>{};
      }
    }
    double y[flight] = {};
#pragma unroll
    for (unsigned f = 0; f < flight; ++f) {
#pragma unroll
      for (unsigned p = 0; p < Packs; ++p) {
#pragma unroll
        for (unsigned i = 0; i < width; ++i) {
          y[f] = fma(signs[p][i], value_of(x[f][p].element[i]), y[f]);
        }
      }
    }
    for (unsigned distance = layout.packs / 2; distance > 0; distance /= 2) {
#pragma unroll
      for (double& part : y) part += __shfl_xor_sync(0xffffffffu, part, distance);
    }
#pragma unroll
    for (unsigned f = 0; f < flight; ++f) {
#pragma unroll
      for (unsigned p = 0; p < Packs; ++p) {
#pragma unroll
        for (unsigned i = 0; i < width; ++i) {
          const double value = value_of(x[f][p].element[i]);
          sums.products[p][i] = fma(value, y[f], sums.products[p][i]);
          sums.squares[p][i] = fma(value, value, sums.squares[p][i]);
        }
      }
    }
  }
}

/// Adds the values of the threads of a warp that own the same columns; valid in its first group.
__device__ double warp_sum(double value, const Layout& layout) {
  for (unsigned distance = warp / 2; distance >= layout.packs; distance /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, distance);
  }
  return value;
}

struct Shared {
  double products[warps][max_narrow], squares[warps][max_narrow];
  double all[warps];
};

/// Leaves each warp's sums of all columns in `shared`.
template <unsigned Packs>
__device__ void share(const Sums<Packs>& sums, unsigned columns, const Layout& layout,
                      Shared& shared) {
  const unsigned lane = threadIdx.x % warp, own = threadIdx.x / warp;
#pragma unroll
  for (unsigned p = 0; p < Packs; ++p) {
    const unsigned first = (layout.pack() + p * layout.packs) * width;
#pragma unroll
    for (unsigned i = 0; i < width; ++i) {
      const double product = warp_sum(sums.products[p][i], layout);
      const double square = warp_sum(sums.squares[p][i], layout);
      if (lane >= layout.packs || first >= columns) continue;
      shared.products[own][first + i] = product;
      shared.squares[own][first + i] = square;
    }
  }
  __syncthreads();
}

__device__ void add(double& to, double value, bool first) {
  to = first ? value : to + value;
}

/// Adds the sums of the block's warps to those of its slice.
__device__ void write(const NarrowSumsArgs& args, Shared& shared) {
  const std::uint64_t offset = blockIdx.x * args.slice_pitch;
  const unsigned column = threadIdx.x;
  double product = 0, square = 0;
  if (column < args.columns) {
    for (unsigned w = 0; w < warps; ++w) {
      product += shared.products[w][column];
      square += shared.squares[w][column];
    }
    add(args.z[offset + column], product, args.first);
    add(args.row_squares[offset + column], square, args.first);
  }
  const double of_warp = warp_sum(square, Layout{1});
  if (column % warp == 0) shared.all[column / warp] = of_warp;
  __syncthreads();
  if (column != 0) return;
  double all = 0;
  for (const double each : shared.all) all += each;
  add(args.column_squares[offset], all, args.first);
}

/// One block per slice. `Packs`: the number of packs that a thread owns.
template <class T, unsigned Packs>
__global__ void __launch_bounds__(threads, 2) sum_slice(NarrowSumsArgs args, Layout layout) {
  __shared__ Shared shared;
  const auto columns = static_cast<unsigned>(args.columns);
  double signs[Packs][width];
#pragma unroll
  for (unsigned p = 0; p < Packs; ++p) {
#pragma unroll
    for (unsigned i = 0; i < width; ++i) {
      signs[p][i] = sign_of(args.seed, (layout.pack() + p * layout.packs) * width + i);
    }
  }
  const std::uint64_t depth = detail::slice_depth(args.depth, args.slices);
  const std::uint64_t begin = blockIdx.x * depth;
  const std::uint64_t end = begin + depth < args.depth ? begin + depth : args.depth;
  Sums<Packs> sums;
  add_samples(static_cast<const Pack<T>*>(args.panel), columns / width, begin, end, signs, layout,
              sums);
  share(sums, columns, layout, shared);
  write(args, shared);
}

/// One thread per element of `out`.
template <class T>
__global__ void __launch_bounds__(threads) unfold_elements(UnfoldArgs args) {
  const std::uint64_t item = std::uint64_t{blockIdx.x} * threads + threadIdx.x;
  if (item >= args.n * args.n) return;
  const std::uint64_t row = item / args.n, column = item % args.n, pitch = args.fold * args.n;
  const T* const block = static_cast<const T*>(args.folded) + row * pitch + column;
  T sum = *block;
#pragma unroll 4
  for (std::uint64_t s = 1; s < args.fold; ++s) sum += block[s * args.n * (pitch + 1)];
  static_cast<T*>(args.out)[item] = sum;
}

}  // namespace

void narrow_sums(const NarrowSumsArgs& args, CudaStream stream) {
  detail::expect_narrow(args);
  const auto packs = static_cast<unsigned>(args.columns / width);
  const Layout layout{std::bit_floor(packs)};
  const auto blocks = static_cast<unsigned>(args.slices);
  with_format(traits_of(args.precision).panel, [&](auto format) {
    using T = Element<decltype(format)::value>;
    if (layout.packs == packs) {
      sum_slice<T, 1><<<blocks, threads, 0, stream>>>(args, layout);
    } else {
      sum_slice<T, 2><<<blocks, threads, 0, stream>>>(args, layout);
    }
  });
}

void unfold(const UnfoldArgs& args, CudaStream stream) {
  const std::uint64_t elements = args.n * args.n;
  if (elements == 0) return;
  const auto blocks = static_cast<unsigned>((elements + threads - 1) / threads);
  with_accumulator_type(args.precision, [&](auto of) {
    unfold_elements<typename decltype(of)::type><<<blocks, threads, 0, stream>>>(args);
  });
}

}  // namespace shardstream::gemm::cuda
