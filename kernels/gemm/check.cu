#include "kernels/gemm/check.cuh"
#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/panel/element.cuh"
#include "kernels/gemm/panel/rounding.hpp"

namespace shardstream::gemm::cuda {
namespace {

constexpr unsigned threads_of_long_row = 1024, threads_of_verdict = 512;
constexpr std::uint64_t long_row = 4096;  // only strips (grid.hpp) have longer ones

/// Bit i is the sign bit (sign_word()) of column first + i, for up to 16 columns.
__device__ std::uint64_t signs_from(std::uint64_t seed, std::uint64_t first) {
  const unsigned shift = first % 64;
  std::uint64_t signs = sign_word(seed, first / 64) >> shift;
  if (shift > 48) signs |= sign_word(seed, first / 64 + 1) << (64 - shift);
  return signs;
}

struct Sums {
  double sum = 0, squares = 0;
};

/// The part of a row's sums that thread `thread` of `count_threads` computes.
template <class T>
__device__ Sums sums_of_thread(const T* x, std::uint64_t count, bool packs, std::uint64_t seed,
                               std::uint64_t first_column, unsigned thread,
                               unsigned count_threads) {
  constexpr unsigned width = Pack<T>::width;
  Sums mine;
#pragma unroll 4
  for (std::uint64_t at = thread * width; at < count; at += count_threads * width) {
    const Pack<T> some = load(x, at, count, packs);
    const std::uint64_t signs = signs_from(seed, first_column + at);
#pragma unroll
    for (unsigned i = 0; i < width; ++i) {
      const double value = value_of(some.element[i]);
      mine.sum += ((signs >> i) & 1u) != 0 ? -value : value;
      mine.squares = fma(value, value, mine.squares);
    }
  }
  return mine;
}

/// The sums of a row by one warp; valid in lane 0.
template <class T>
__device__ Sums row_sums(const T* x, std::uint64_t count, bool packs, std::uint64_t seed,
                         std::uint64_t first_column) {
  const Sums mine = sums_of_thread(x, count, packs, seed, first_column, threadIdx.x % 32, 32);
  return {warp_sum(mine.sum), warp_sum(mine.squares)};
}

/// One warp per row of a column tile.
template <class T>
__global__ void __launch_bounds__(threads) sum_rows(SignedSumsArgs args, bool packs) {
  const std::uint64_t item = std::uint64_t{blockIdx.x} * warps + threadIdx.x / 32;
  if (item >= args.rows * args.tiles) return;
  const std::uint64_t row = item / args.tiles, tile = item % args.tiles;
  const std::uint64_t column = tile * args.tile_n;
  const Sums sums = row_sums(static_cast<const T*>(args.panel) + row * args.ld + column,
                             args.tile_n, packs, args.seed, args.first_column + column);
  if (threadIdx.x % 32 != 0) return;
  double* y = args.y + row * 2 * args.tiles + tile;
  y[0] = sums.sum;
  y[args.tiles] = sums.squares;
}

/// Computes the verdict on a row from its sums.
__device__ void judge(const CheckTileArgs& args, const detail::ErrorParameters& parameters,
                      std::uint64_t row, const Sums& sums) {
  const auto model = detail::error_model(parameters, static_cast<double>(args.columns),
                                         sums.squares, args.row_squares[row], *args.column_squares);
  const double bound = 8 * sqrt(model.variance) + model.underflow;
  const double ratio = detail::ratio_of(sums.sum, args.z[row * args.z_stride], model, bound);
  args.row_verdicts[row] = {ratio, bound, sums.squares};
}

/// One block per row, for the few rows of a long strip.
template <class T>
__global__ void __launch_bounds__(threads_of_long_row)
    check_long_rows(CheckTileArgs args, detail::ErrorParameters parameters, bool packs) {
  const std::uint64_t row = blockIdx.x;
  const Sums mine =
      sums_of_thread(static_cast<const T*>(args.tile) + row * args.ld, args.columns, packs,
                     args.seed, args.first_column, threadIdx.x, threads_of_long_row);
  const Sums sums{block_sum(mine.sum), block_sum(mine.squares)};
  if (threadIdx.x == 0) judge(args, parameters, row, sums);
}

/// One warp per row.
template <class T>
__global__ void __launch_bounds__(threads)
    check_rows_of(CheckTileArgs args, detail::ErrorParameters parameters, bool packs) {
  const std::uint64_t row = std::uint64_t{blockIdx.x} * warps + threadIdx.x / 32;
  if (row >= args.rows) return;
  const Sums sums = row_sums(static_cast<const T*>(args.tile) + row * args.ld, args.columns, packs,
                             args.seed, args.first_column);
  if (threadIdx.x % 32 == 0) judge(args, parameters, row, sums);
}

/// Adds the verdict on other rows to `mine`.
__device__ void join(TileVerdict& mine, const TileVerdict& other) {
  const bool earlier = other.worst == mine.worst && other.worst_row < mine.worst_row;
  if (other.worst > mine.worst || earlier) {
    mine.worst = other.worst;
    mine.worst_row = other.worst_row;
  }
  mine.failures += other.failures;
  mine.unchecked += other.unchecked;
  mine.overflowed += other.overflowed;
  if (other.detection_threshold > mine.detection_threshold)
    mine.detection_threshold = other.detection_threshold;
}

/// One block: each thread combines every 512th row, then a tree joins the threads.
__global__ void __launch_bounds__(threads_of_verdict) join_rows(CheckTileArgs args) {
  __shared__ TileVerdict found[threads_of_verdict];
  const unsigned t = threadIdx.x;
  TileVerdict mine{};
#pragma unroll 8
  for (std::uint64_t row = t; row < args.rows; row += threads_of_verdict) {
    detail::take(mine, args.row_verdicts[row], row);
  }
  found[t] = mine;
  for (unsigned width = threads_of_verdict / 2; width > 0; width /= 2) {
    __syncthreads();
    if (t < width) join(found[t], found[t + width]);
  }
  if (t != 0) return;
  *args.verdict = args.joins ? detail::joined(*args.verdict, found[0], args.counts) : found[0];
}

}  // namespace

void signed_sums(const SignedSumsArgs& args, CudaStream stream) {
  const std::uint64_t items = args.rows * args.tiles;
  if (items == 0) return;
  with_format(traits_of(args.precision).panel, [&](auto format) {
    using T = Element<decltype(format)::value>;
    const bool packs = in_packs<T>(args.panel, args.ld) && args.tile_n % Pack<T>::width == 0;
    sum_rows<T><<<blocks_of(items, warps), threads, 0, stream>>>(args, packs);
  });
}

void check_rows(const CheckTileArgs& args, CudaStream stream) {
  if (args.rows == 0) return;
  const auto parameters =
      detail::error_parameters(args.precision, args.k, args.counts, args.drifts, args.moduli);
  with_accumulator_type(args.precision, [&](auto of) {
    using T = typename decltype(of)::type;
    const bool packs = in_packs<T>(args.tile, args.ld);
    if (args.columns > long_row) {
      check_long_rows<T><<<static_cast<unsigned>(args.rows), threads_of_long_row, 0, stream>>>(
          args, parameters, packs);
    } else {
      check_rows_of<T>
          <<<blocks_of(args.rows, warps), threads, 0, stream>>>(args, parameters, packs);
    }
  });
}

void verdict(const CheckTileArgs& args, CudaStream stream) {
  join_rows<<<1, threads_of_verdict, 0, stream>>>(args);
}

}  // namespace shardstream::gemm::cuda
