#include <algorithm>

#include "kernels/gemm/panel_cuda.hpp"
#include "kernels/gemm/panel_element.cuh"
#include "kernels/gemm/rounding.hpp"

namespace shardstream::gemm::cuda {
namespace {

constexpr unsigned threads = 256;

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

/// Neighbouring elements, which a thread moves at once.
template <class T, unsigned Width>
struct alignas(Width * sizeof(T) < 16 ? Width * sizeof(T) : 16) Pack {
  T element[Width];
};

/// Whether rows of `ld` elements from `data` can be taken in Packs of four.
template <class T>
bool in_fours(const void* data, std::uint64_t ld) {
  return reinterpret_cast<std::uintptr_t>(data) % alignof(Pack<T, 4>) == 0 && ld % 4 == 0;
}

/// A block of threads takes `threads` packs of one row.
struct Grid {
  std::uint64_t rows, columns, blocks_a_row;
  unsigned blocks() const { return static_cast<unsigned>(rows * blocks_a_row); }
};
Grid grid_of(std::uint64_t rows, std::uint64_t columns, unsigned width) {
  return {rows, columns, ceil_div(columns, std::uint64_t{threads} * width)};
}
struct Place {
  std::uint64_t row, column;
  bool inside;
};
__device__ Place place_in(const Grid& grid, unsigned width) {
  const std::uint64_t row = blockIdx.x / grid.blocks_a_row;
  const std::uint64_t block = blockIdx.x % grid.blocks_a_row;
  const std::uint64_t column = (block * threads + threadIdx.x) * width;
  return {row, column, column < grid.columns};
}

template <Precision P, unsigned Width, class T>
__global__ void __launch_bounds__(threads)
    convert(const T* from, Element<P>* to, std::uint64_t ld, Grid grid) {
  const Place at = place_in(grid, Width);
  if (!at.inside) return;
  const auto in =
      *reinterpret_cast<const Pack<T, Width>*>(from + at.row * grid.columns + at.column);
  Pack<Element<P>, Width> out;
#pragma unroll
  for (unsigned i = 0; i < Width; ++i) out.element[i] = encoded<P>(rounded<P>(in.element[i]));
  *reinterpret_cast<Pack<Element<P>, Width>*>(to + at.row * ld + at.column) = out;
}

constexpr unsigned edge = 64;  // of the squares that a block of threads turns

/// panel[r][c] = raw[c][r], through a square in shared memory whose rows are one longer, so that
/// its columns lie in different banks.
template <Precision P, class T>
__global__ void __launch_bounds__(threads)
    transpose(const T* raw, Element<P>* panel, std::uint64_t rows, std::uint64_t columns,
              std::uint64_t ld) {
  __shared__ Element<P> square[edge][edge + 1];
  const std::uint64_t across = ceil_div(rows, edge);
  const std::uint64_t r0 = blockIdx.x % across * edge, c0 = blockIdx.x / across * edge;
  const unsigned x = threadIdx.x % edge, y = threadIdx.x / edge;
#pragma unroll
  for (unsigned i = 0; i < edge; i += threads / edge) {
    if (c0 + y + i < columns && r0 + x < rows) {
      square[y + i][x] = encoded<P>(rounded<P>(raw[(c0 + y + i) * rows + r0 + x]));
    }
  }
  __syncthreads();
#pragma unroll
  for (unsigned i = 0; i < edge; i += threads / edge) {
    if (r0 + y + i < rows && c0 + x < columns) {
      panel[(r0 + y + i) * ld + c0 + x] = square[x][y + i];
    }
  }
}

template <Precision P, class T>
void canonicalize_as(const CanonicalizeArgs& args, CudaStream stream) {
  const auto* raw = static_cast<const T*>(args.raw);
  auto* panel = static_cast<Element<P>*>(args.panel);
  if (args.transpose) {
    const std::uint64_t blocks = ceil_div(args.rows, edge) * ceil_div(args.columns, edge);
    transpose<P><<<static_cast<unsigned>(blocks), threads, 0, stream>>>(raw, panel, args.rows,
                                                                        args.columns, args.ld);
    return;
  }
  const bool dense = args.ld == args.columns;  // then it is one long row
  const std::uint64_t rows = dense ? 1 : args.rows;
  const std::uint64_t columns = dense ? args.rows * args.columns : args.columns;
  const bool fours =
      in_fours<T>(raw, columns) && in_fours<Element<P>>(panel, dense ? columns : args.ld);
  const Grid grid = grid_of(rows, columns, fours ? 4 : 1);
  if (fours) {
    convert<P, 4><<<grid.blocks(), threads, 0, stream>>>(raw, panel, args.ld, grid);
  } else {
    convert<P, 1><<<grid.blocks(), threads, 0, stream>>>(raw, panel, args.ld, grid);
  }
}

template <class T, unsigned Width>
__global__ void __launch_bounds__(threads) finish_elements(FinishArgs args, Grid grid) {
  const Place at = place_in(grid, Width);
  if (!at.inside) return;
  using Four = Pack<T, Width>;
  const std::uint64_t dense = at.row * grid.columns + at.column;
  auto values = *reinterpret_cast<const Four*>(static_cast<const T*>(args.tile) +
                                               at.row * args.ld_tile + at.column);
  if (args.c0 == nullptr) {
#pragma unroll
    for (T& value : values.element) value = finished<T>(args.alpha * value);
  } else {
    const auto c0 = *reinterpret_cast<const Four*>(static_cast<const T*>(args.c0) + dense);
#pragma unroll
    for (unsigned i = 0; i < Width; ++i) {
      values.element[i] = finished<T>(args.alpha * values.element[i] + args.beta * c0.element[i]);
    }
  }
  auto* const out = static_cast<T*>(args.out) + at.row * args.ld_out + at.column;
  *reinterpret_cast<Four*>(out) = values;
}

template <class T>
void finish_as(const FinishArgs& args, CudaStream stream) {
  const bool dense = args.ld_tile == args.columns && args.ld_out == args.columns;
  const std::uint64_t rows = dense ? 1 : args.rows;
  const std::uint64_t columns = dense ? args.rows * args.columns : args.columns;
  const bool fours = in_fours<T>(args.tile, dense ? columns : args.ld_tile) &&
                     in_fours<T>(args.out, dense ? columns : args.ld_out) &&
                     in_fours<T>(args.c0, columns);
  const Grid grid = grid_of(rows, columns, fours ? 4 : 1);
  if (fours) {
    finish_elements<T, 4><<<grid.blocks(), threads, 0, stream>>>(args, grid);
  } else {
    finish_elements<T, 1><<<grid.blocks(), threads, 0, stream>>>(args, grid);
  }
}

/// Adds up the warp's sums and adds the total to *sum: whole numbers, whose order does not matter.
__device__ void add_warp(std::uint64_t value, std::uint64_t* sum) {
#pragma unroll
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, distance);
  }
  if (threadIdx.x % 32 == 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(value));
  }
}

constexpr unsigned flight = 8;  // loads of a thread before it uses the first
constexpr unsigned rounds = 8;  // so that a warp, which ends with an atomic, has 32 KiB
constexpr std::uint64_t pairs_a_block = std::uint64_t{threads} * flight * rounds;

__global__ void __launch_bounds__(threads)
    sum_pairs(const ulonglong2* pairs, std::uint64_t count, std::uint64_t* sum) {
  std::uint64_t mine = 0;
  const std::uint64_t begin = blockIdx.x * pairs_a_block + threadIdx.x;
  for (unsigned round = 0; round < rounds; ++round) {
    const std::uint64_t first = begin + round * std::uint64_t{threads} * flight;
    ulonglong2 pair[flight];
#pragma unroll
    for (unsigned i = 0; i < flight; ++i) {
      const std::uint64_t at = first + i * threads;
      pair[i] = at < count ? pairs[at] : ulonglong2{0, 0};
    }
#pragma unroll
    for (unsigned i = 0; i < flight; ++i) mine += pair[i].x + pair[i].y;
  }
  add_warp(mine, sum);
}

/// A word a thread, byte by byte: for what is not aligned, and for a tail.
__global__ void __launch_bounds__(threads)
    sum_bytes(const std::uint8_t* data, std::uint64_t bytes, std::uint64_t* sum) {
  const std::uint64_t first = (std::uint64_t{blockIdx.x} * threads + threadIdx.x) * 8;
  std::uint64_t word = 0;
  for (unsigned i = 0; i < 8; ++i) {
    if (first + i < bytes) word |= std::uint64_t{data[first + i]} << (8 * i);
  }
  add_warp(word, sum);
}

}  // namespace

void canonicalize(const CanonicalizeArgs& args, CudaStream stream) {
  if (args.rows == 0 || args.columns == 0) return;
  with_element_type(args.from, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_precision(args.precision, [&](auto precision) {
      constexpr Precision to = decltype(precision)::value;
      if constexpr (can_round<to, T>) {
        canonicalize_as<to, T>(args, stream);
      } else {
        throw std::logic_error("int8 panels are made of i8 alone");
      }
    });
  });
}

void zero(const ZeroArgs& args, CudaStream stream) {
  cudaMemsetAsync(args.data, 0, args.bytes, stream);  // whoever launches reads the last error
}

void sum_words(const WordSumArgs& args, CudaStream stream) {
  const auto* bytes = static_cast<const std::uint8_t*>(args.data);
  const bool aligned = reinterpret_cast<std::uintptr_t>(bytes) % sizeof(ulonglong2) == 0;
  const std::uint64_t pairs = aligned ? args.bytes / sizeof(ulonglong2) : 0;
  if (pairs > 0) {
    sum_pairs<<<static_cast<unsigned>(ceil_div(pairs, pairs_a_block)), threads, 0, stream>>>(
        reinterpret_cast<const ulonglong2*>(bytes), pairs, args.sum);
  }
  const std::uint64_t rest = args.bytes - pairs * sizeof(ulonglong2);
  if (rest > 0) {
    sum_bytes<<<static_cast<unsigned>(ceil_div(rest, threads * 8)), threads, 0, stream>>>(
        bytes + (args.bytes - rest), rest, args.sum);
  }
}

void finish(const FinishArgs& args, CudaStream stream) {
  if (args.rows == 0 || args.columns == 0) return;
  with_accumulator_type(args.precision,
                        [&](auto of) { finish_as<typename decltype(of)::type>(args, stream); });
}

}  // namespace shardstream::gemm::cuda
