#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/panel/element.cuh"
#include "kernels/gemm/panel/rounding.hpp"

namespace shardstream::gemm::cuda {
namespace {

constexpr unsigned threads = 256, warps = threads / 32;
constexpr unsigned threads_of_long_row = 1024, threads_of_verdict = 512;
constexpr std::uint64_t long_row = 4096;  // only strips (grid.hpp) have longer ones

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}
unsigned blocks_of(std::uint64_t items, std::uint64_t items_a_block) {
  return static_cast<unsigned>(ceil_div(items, items_a_block));
}

/// 16 bytes of elements, or 8 of the smallest, since a step of add_products has no more of these.
template <class T>
struct alignas(sizeof(T) == 1 ? 8 : 16) Pack {
  static constexpr unsigned width = sizeof(T) == 1 ? 8 : 16 / sizeof(T);
  T element[width];
};

/// Whether every row of `ld` elements can be read in Packs.
template <class T>
bool in_packs(const void* data, std::uint64_t ld) {
  return reinterpret_cast<std::uintptr_t>(data) % alignof(Pack<T>) == 0 && ld % Pack<T>::width == 0;
}

/// Elements [at, at + width) of x, with zeros from `count` on.
template <class T>
__device__ Pack<T> load(const T* x, std::uint64_t at, std::uint64_t count, bool packs) {
  if (packs && at + Pack<T>::width <= count) return *reinterpret_cast<const Pack<T>*>(x + at);
  Pack<T> some{};
#pragma unroll
  for (unsigned i = 0; i < Pack<T>::width; ++i) {
    if (at + i < count) some.element[i] = x[at + i];
  }
  return some;
}

/// Bit i is the sign bit (sign_word()) of column first + i, for up to 16 columns.
__device__ std::uint64_t signs_from(std::uint64_t seed, std::uint64_t first) {
  const unsigned shift = first % 64;
  std::uint64_t signs = sign_word(seed, first / 64) >> shift;
  if (shift > 48) signs |= sign_word(seed, first / 64 + 1) << (64 - shift);
  return signs;
}

__device__ double warp_sum(double value) {
#pragma unroll
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, distance);
  }
  return value;
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

/// The sum over the block's threads; valid in thread 0.
__device__ double block_sum(double value) {
  __shared__ double of_warp[32];
  value = warp_sum(value);
  __syncthreads();  // an earlier sum has been read
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  double total = 0;
  for (unsigned i = 0; i < blockDim.x / 32; ++i) total += of_warp[i];
  return total;
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

// add_products: a block of threads reads 64 rows of A and up to `Columns` columns of Y through
// shared memory, 32 of the depth at a time. A thread computes four rows times four columns. If the
// block has more threads than that needs, they divide the depth, and their sums are added at the
// end.
constexpr unsigned block_rows = 64, depth_step = 32;
constexpr unsigned pitch = block_rows + 2;  // of a column of A: keeps pairs of doubles aligned

template <class T, unsigned Columns>
struct Staged {
  static constexpr unsigned width = Pack<T>::width;
  static constexpr unsigned a_loads = block_rows * depth_step / width / threads;
  static constexpr unsigned y_loads = (depth_step * Columns + threads - 1) / threads;
  Pack<T> a[a_loads];
  double y[y_loads];

  // Sixteen lanes read sixteen rows, so that their stores to a column of A are contiguous. Two
  // neighbouring packs of a row are one sector of 32 bytes.
  static __device__ unsigned row() { return threadIdx.x % 16 + threadIdx.x / 32 % 4 * 16; }
  static __device__ unsigned pack() { return threadIdx.x / 16 % 2 + threadIdx.x / 128 * 2; }

  /// Loads the elements of the step at `kk`, with zeros from `end` on.
  __device__ void fetch(const AddProductsArgs& args, bool packs, std::uint64_t kk,
                        std::uint64_t end) {
    const std::uint64_t r = std::uint64_t{blockIdx.x} * block_rows + row();
    const T* line = static_cast<const T*>(args.panel) + r * args.ld;
#pragma unroll
    for (unsigned i = 0; i < a_loads; ++i) {
      a[i] = load(line, kk + (pack() + 4 * i) * width, r < args.rows ? end : 0, packs);
    }
#pragma unroll
    for (unsigned i = 0; i < y_loads; ++i) {
      const unsigned at = threadIdx.x + i * threads;
      const std::uint64_t k = kk + at / Columns;
      const std::uint64_t column = std::uint64_t{blockIdx.y} * Columns + at % Columns;
      const bool inside = at < depth_step * Columns && k < end && column < args.tiles;
      y[i] = inside ? args.y[k * 2 * args.tiles + column] : 0;
    }
  }

  /// Stores the elements to shared memory. Returns `squares` plus the squares of this thread's
  /// elements of A.
  __device__ double store(double* to_a, double* to_y, double squares) const {
#pragma unroll
    for (unsigned i = 0; i < a_loads; ++i) {
#pragma unroll
      for (unsigned e = 0; e < width; ++e) {
        const double value = value_of(a[i].element[e]);
        to_a[((pack() + 4 * i) * width + e) * pitch + row()] = value;
        squares = fma(value, value, squares);
      }
    }
#pragma unroll
    for (unsigned i = 0; i < y_loads; ++i) {
      const unsigned at = threadIdx.x + i * threads;
      if (at < depth_step * Columns) to_y[at] = y[i];
    }
    return squares;
  }
};

/// Adds the block's products to Z. Each slice of threads has left its part of them in `shared`, and
/// `offset` is that of the depth's slice in Z.
template <unsigned Columns, unsigned Slices>
__device__ void write_products(const AddProductsArgs& args, const double* shared,
                               std::uint64_t offset) {
  constexpr unsigned results = block_rows * Columns;
  for (unsigned at = threadIdx.x; at < results; at += threads) {
    double total = 0;
    for (unsigned s = 0; s < Slices; ++s) total += shared[s * results + at];
    const std::uint64_t row = std::uint64_t{blockIdx.x} * block_rows + at / Columns;
    const std::uint64_t column = std::uint64_t{blockIdx.y} * Columns + at % Columns;
    if (row >= args.rows || column >= args.tiles) continue;
    double& z = args.z[offset + row * args.tiles + column];
    z = args.first ? total : z + total;
  }
}

/// Adds the squares of the block's rows of A, which its threads have in parts.
template <class T, unsigned Columns>
__device__ void write_row_squares(const AddProductsArgs& args, double* shared, double squares,
                                  std::uint64_t offset) {
  __syncthreads();
  shared[Staged<T, Columns>::pack() * block_rows + Staged<T, Columns>::row()] = squares;
  __syncthreads();
  const std::uint64_t row = std::uint64_t{blockIdx.x} * block_rows + threadIdx.x;
  if (threadIdx.x >= block_rows || row >= args.rows) return;
  double total = 0;
  for (unsigned s = 0; s < 4; ++s) total += shared[s * block_rows + threadIdx.x];
  double& all = args.row_squares[offset + row];
  all = args.first ? total : all + total;
}

template <class T, unsigned Columns>
__global__ void __launch_bounds__(threads, 2) add_products_of(AddProductsArgs args, bool packs) {
  constexpr unsigned groups = Columns / 4, slices = threads / 16 / groups;
  constexpr unsigned results = block_rows * Columns;
  constexpr unsigned staged_doubles = depth_step * (pitch + Columns);
  constexpr unsigned doubles =
      staged_doubles > results * slices ? staged_doubles : results * slices;
  __shared__ alignas(16) double shared[doubles];
  double* const a = shared;
  double* const y = shared + depth_step * pitch;
  const unsigned t = threadIdx.x, pair = t % 16, group = t / 16 % groups, slice = t / 16 / groups;

  double sum[4][4] = {};
  double squares = 0;
  Staged<T, Columns> ahead;
  const std::uint64_t of_slice = detail::slice_depth(args.depth, args.slices);
  const std::uint64_t begin = blockIdx.z * of_slice, offset = blockIdx.z * args.slice_pitch;
  const std::uint64_t end = begin + of_slice < args.depth ? begin + of_slice : args.depth;
  ahead.fetch(args, packs, begin, end);
  for (std::uint64_t kk = begin; kk < end; kk += depth_step) {
    __syncthreads();
    squares = ahead.store(a, y, squares);
    __syncthreads();
    if (kk + depth_step < end) ahead.fetch(args, packs, kk + depth_step, end);
#pragma unroll 4
    for (unsigned k = slice; k < depth_step; k += slices) {
      // Each lane loads pairs of rows, so that a warp's loads cover all banks.
      const double2 low = *reinterpret_cast<const double2*>(a + k * pitch + 2 * pair);
      const double2 high = *reinterpret_cast<const double2*>(a + k * pitch + 32 + 2 * pair);
      const double row[4] = {low.x, low.y, high.x, high.y};
      const auto* columns = reinterpret_cast<const double2*>(y + k * Columns + 4 * group);
      const double column[4] = {columns[0].x, columns[0].y, columns[1].x, columns[1].y};
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
#pragma unroll
        for (unsigned j = 0; j < 4; ++j) sum[i][j] = fma(row[i], column[j], sum[i][j]);
      }
    }
  }

  __syncthreads();
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = i / 2 * 32 + 2 * pair + i % 2;
#pragma unroll
    for (unsigned j = 0; j < 4; ++j) {
      shared[slice * results + row * Columns + 4 * group + j] = sum[i][j];
    }
  }
  __syncthreads();
  write_products<Columns, slices>(args, shared, offset);
  if (blockIdx.y == 0) write_row_squares<T, Columns>(args, shared, squares, offset);
}

/// One block per column tile and slice.
__global__ void __launch_bounds__(threads) add_column_squares(AddProductsArgs args) {
  const std::uint64_t of_slice = detail::slice_depth(args.depth, args.slices);
  const std::uint64_t begin = blockIdx.y * of_slice;
  const std::uint64_t end = begin + of_slice < args.depth ? begin + of_slice : args.depth;
  double mine = 0;
  for (std::uint64_t kk = begin + threadIdx.x; kk < end; kk += threads) {
    mine += args.y[kk * 2 * args.tiles + args.tiles + blockIdx.x];
  }
  const double total = block_sum(mine);
  if (threadIdx.x != 0) return;
  double& all = args.column_squares[blockIdx.y * args.slice_pitch + blockIdx.x];
  all = args.first ? total : all + total;
}

template <class T, unsigned Columns>
void launch_products(const AddProductsArgs& args, CudaStream stream) {
  const dim3 blocks(blocks_of(args.rows, block_rows), blocks_of(args.tiles, Columns),
                    static_cast<unsigned>(args.slices));
  add_products_of<T, Columns>
      <<<blocks, threads, 0, stream>>>(args, in_packs<T>(args.panel, args.ld));
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
  if (t == 0) *args.verdict = found[0];
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

void add_products(const AddProductsArgs& args, CudaStream stream) {
  if (args.tiles == 0) return;
  const dim3 blocks(static_cast<unsigned>(args.tiles), static_cast<unsigned>(args.slices));
  add_column_squares<<<blocks, threads, 0, stream>>>(args);
  if (args.rows == 0) return;
  with_format(traits_of(args.precision).panel, [&](auto format) {
    using T = Element<decltype(format)::value>;
    if (args.tiles <= 4) {
      launch_products<T, 4>(args, stream);
    } else if (args.tiles <= 16) {
      launch_products<T, 16>(args, stream);
    } else {
      launch_products<T, 64>(args, stream);
    }
  });
}

void check_rows(const CheckTileArgs& args, CudaStream stream) {
  if (args.rows == 0) return;
  const auto parameters = detail::error_parameters(args.precision, args.k);
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
