#include "kernels/gemm/check.cuh"
#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/panel/element.cuh"
#include "kernels/gemm/panel/rounding.hpp"

namespace shardstream::gemm::cuda {
namespace {

// A block of threads reads 64 rows of A and up to `Columns` columns of Y through shared memory, 32
// of the depth at a time. A thread computes four rows times four columns. If the block has more
// threads than that needs, they divide the depth, and their sums are added at the end.
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

template <class T, unsigned Columns>
void launch_products(const AddProductsArgs& args, CudaStream stream) {
  const dim3 blocks(blocks_of(args.rows, block_rows), blocks_of(args.tiles, Columns),
                    static_cast<unsigned>(args.slices));
  add_products_of<T, Columns>
      <<<blocks, threads, 0, stream>>>(args, in_packs<T>(args.panel, args.ld));
}

// A product with one or two column tiles: Z is a matrix times one or two vectors, and the kernel
// below reads A at the rate of memory. A block has a few rows and a slice of the depth. Each thread
// loads a pack of every row, and the rows share the thread's elements of Y.
constexpr unsigned few_rows = 8;

template <class T, unsigned Tiles>
__global__ void __launch_bounds__(threads) add_few_products(AddProductsArgs args, bool packs) {
  constexpr unsigned width = Pack<T>::width, results = few_rows * (Tiles + 1);
  __shared__ double of_warp[warps][results];
  const std::uint64_t of_slice = detail::slice_depth(args.depth, args.slices);
  const std::uint64_t begin = blockIdx.z * of_slice, first = std::uint64_t{blockIdx.x} * few_rows;
  const std::uint64_t end = begin + of_slice < args.depth ? begin + of_slice : args.depth;
  double sums[few_rows][Tiles + 1] = {};  // of the products with each column of Y; of the squares
  for (std::uint64_t kk = begin + threadIdx.x * width; kk < end; kk += threads * width) {
    Pack<T> a[few_rows];
#pragma unroll
    for (unsigned r = 0; r < few_rows; ++r) {
      const T* line = static_cast<const T*>(args.panel) + (first + r) * args.ld;
      a[r] = load(line, kk, first + r < args.rows ? end : 0, packs);
    }
#pragma unroll
    for (unsigned i = 0; i < width; ++i) {
      double y[Tiles];
#pragma unroll
      for (unsigned t = 0; t < Tiles; ++t)
        y[t] = kk + i < end ? args.y[(kk + i) * 2 * Tiles + t] : 0;
#pragma unroll
      for (unsigned r = 0; r < few_rows; ++r) {
        const double value = value_of(a[r].element[i]);
#pragma unroll
        for (unsigned t = 0; t < Tiles; ++t) sums[r][t] = fma(value, y[t], sums[r][t]);
        sums[r][Tiles] = fma(value, value, sums[r][Tiles]);
      }
    }
  }
#pragma unroll
  for (unsigned r = 0; r < few_rows; ++r) {
#pragma unroll
    for (unsigned t = 0; t <= Tiles; ++t) {
      const double sum = warp_sum(sums[r][t]);
      if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32][r * (Tiles + 1) + t] = sum;
    }
  }
  __syncthreads();
  const std::uint64_t row = first + threadIdx.x / (Tiles + 1), column = threadIdx.x % (Tiles + 1);
  if (threadIdx.x >= results || row >= args.rows) return;
  double total = 0;
  for (unsigned w = 0; w < warps; ++w) total += of_warp[w][threadIdx.x];
  double& all = column < Tiles ? args.z[blockIdx.z * args.slice_pitch + row * Tiles + column]
                               : args.row_squares[blockIdx.z * args.slice_pitch + row];
  all = args.first ? total : all + total;
}

template <class T, unsigned Tiles>
void launch_few_products(const AddProductsArgs& args, CudaStream stream) {
  const dim3 blocks(blocks_of(args.rows, few_rows), 1, static_cast<unsigned>(args.slices));
  add_few_products<T, Tiles>
      <<<blocks, threads, 0, stream>>>(args, in_packs<T>(args.panel, args.ld));
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

}  // namespace

void add_products(const AddProductsArgs& args, CudaStream stream) {
  if (args.tiles == 0) return;
  const dim3 blocks(static_cast<unsigned>(args.tiles), static_cast<unsigned>(args.slices));
  add_column_squares<<<blocks, threads, 0, stream>>>(args);
  if (args.rows == 0) return;
  with_format(traits_of(args.precision).panel, [&](auto format) {
    using T = Element<decltype(format)::value>;
    if (args.tiles == 1) {
      launch_few_products<T, 1>(args, stream);
    } else if (args.tiles == 2) {
      launch_few_products<T, 2>(args, stream);
    } else if (args.tiles <= 4) {
      launch_products<T, 4>(args, stream);
    } else if (args.tiles <= 16) {
      launch_products<T, 16>(args, stream);
    } else {
      launch_products<T, 64>(args, stream);
    }
  });
}

}  // namespace shardstream::gemm::cuda
