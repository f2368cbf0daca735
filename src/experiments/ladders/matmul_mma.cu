// The rungs of `matmul` on tensor cores by mma. Tiles and copies are those of "double buffering" in
// matmul_cores.cu; only the multiplication changes, from one thread's fmaf to one warp's mma. The
// second rung also changes the elements, from floats to bf16.
#include <cuda_pipeline.h>

#include <array>
#include <type_traits>

#include "experiments/ladders/matmul.hpp"
#include "experiments/ladders/mma.cuh"

namespace shardstream::experiments::ladders {
namespace {

constexpr unsigned edge = 128;     // of the block's tile of C
constexpr unsigned threads = 256;  // of a block: 2 x 4 warps
constexpr unsigned rows_of_warp = 64, columns_of_warp = 32;
constexpr unsigned m_steps = rows_of_warp / 16, n_steps = columns_of_warp / 8;
constexpr unsigned word = 16;  // bytes of a copy

/// Tiles of A and B in shared memory. Rows of A's tile have 64 bytes: 16 floats or 32 of bf16.
/// Padding lets the rows that an instruction reads begin in different banks.
template <class T>
struct Tiles {
  static constexpr unsigned depth = 64 / sizeof(T);
  static constexpr unsigned in_word = word / sizeof(T);  // elements
  static constexpr unsigned b_padding = (std::is_same_v<T, float> ? 2 : 1) * in_word;
  alignas(word) T a[edge][depth + in_word];
  alignas(word) T b[depth][edge + b_padding];
};

/// Copies the tiles of A and B from index `first` of k on. Returns without waiting.
template <class T>
__device__ void begin_copy(const Product<T>& p, unsigned first, Tiles<T>& to) {
  constexpr unsigned depth = Tiles<T>::depth, in_word = Tiles<T>::in_word;
  const T* const a_rows = p.a + std::uint64_t{blockIdx.y} * edge * p.k + first;
  const T* const b_rows = p.b + std::uint64_t{first} * p.n + blockIdx.x * edge;
#pragma unroll
  for (unsigned i = threadIdx.x; i < edge * depth / in_word; i += threads) {
    const unsigned row = i / (depth / in_word), column = i % (depth / in_word) * in_word;
    __pipeline_memcpy_async(&to.a[row][column], a_rows + std::uint64_t{row} * p.k + column, word);
  }
#pragma unroll
  for (unsigned i = threadIdx.x; i < edge * depth / in_word; i += threads) {
    const unsigned row = i / (edge / in_word), column = i % (edge / in_word) * in_word;
    __pipeline_memcpy_async(&to.b[row][column], b_rows + std::uint64_t{row} * p.n + column, word);
  }
}

/// Loads B's words for two neighbouring steps of 8 columns. Rows of bf16 are transposed on the way,
/// since a word holds two elements of one column. A word of one float needs no transposition, but
/// a load of its own.
__device__ void load_b(std::uint32_t (&b)[2][2], const Tiles<float>& tiles, unsigned k,
                       unsigned column, unsigned lane) {
#pragma unroll
  for (unsigned j = 0; j < 2; ++j) {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      b[j][half] = __float_as_uint(tiles.b[k + 4 * half + lane % 4][column + 8 * j + lane / 4]);
    }
  }
}
__device__ void load_b(std::uint32_t (&b)[2][2], const Tiles<bf16>& tiles, unsigned k,
                       unsigned column, unsigned lane) {
  std::uint32_t words[4];
  load_transposed(words, &tiles.b[k + lane % 16][column + lane / 16 * 8]);
  b[0][0] = words[0];
  b[0][1] = words[1];
  b[1][0] = words[2];
  b[1][1] = words[3];
}

/// Adds the product of the tiles to the sums of the warp, whose part of the tile of C begins at
/// (row, column).
template <class T>
__device__ void add_tiles(Sums16x8 (&sums)[m_steps][n_steps], const Tiles<T>& tiles, unsigned row,
                          unsigned column, unsigned lane) {
  constexpr unsigned k_step = 32 / sizeof(T);
#pragma unroll
  for (unsigned k = 0; k < Tiles<T>::depth; k += k_step) {
    std::uint32_t a[m_steps][4], b[n_steps / 2][2][2];
#pragma unroll
    for (unsigned i = 0; i < m_steps; ++i) {
      load_matrices(a[i], &tiles.a[row + 16 * i + lane % 16][k + lane / 16 * (k_step / 2)]);
    }
#pragma unroll
    for (unsigned j = 0; j < n_steps / 2; ++j) load_b(b[j], tiles, k, column + 16 * j, lane);
#pragma unroll
    for (unsigned i = 0; i < m_steps; ++i) {
#pragma unroll
      for (unsigned j = 0; j < n_steps; ++j) multiply_add(sums[i][j], a[i], b[j / 2][j % 2], T{});
    }
  }
}

/// Stores two neighbouring elements of C.
template <class T>
__device__ void put_pair(const Product<T>& p, unsigned row, unsigned column, float left,
                         float right) {
  auto* const pair = reinterpret_cast<float2*>(p.c + std::uint64_t{row} * p.n + column);
  const float2 c = *pair;
  *pair = {fmaf(p.alpha, left, p.beta * c.x), fmaf(p.alpha, right, p.beta * c.y)};
}

constexpr SourceLine mma_place = kernel_below(2);
template <class T>
__global__ void __launch_bounds__(threads, 2) multiply_by_mma(const Product<T> p) {
  constexpr unsigned depth = Tiles<T>::depth;
  __shared__ Tiles<T> tiles[2];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned row = warp / 4 * rows_of_warp, column = warp % 4 * columns_of_warp;
  Sums16x8 sums[m_steps][n_steps] = {};
  begin_copy(p, 0, tiles[0]);
  __pipeline_commit();
  for (unsigned first = 0, now = 0; first < p.k; first += depth, now = 1 - now) {
    if (first + depth < p.k) begin_copy(p, first + depth, tiles[1 - now]);
    __pipeline_commit();
    __pipeline_wait_prior(1);  // all copies but the last ones, which are of the next tiles
    __syncthreads();
    add_tiles(sums, tiles[now], row, column, lane);
    __syncthreads();  // before the copies after next replace these tiles
  }
  const unsigned c_row = blockIdx.y * edge + row + lane / 4;
  const unsigned c_column = blockIdx.x * edge + column + 2 * (lane % 4);
#pragma unroll
  for (unsigned i = 0; i < m_steps; ++i) {
#pragma unroll
    for (unsigned j = 0; j < n_steps; ++j) {
      const Sums16x8& of_step = sums[i][j];
      put_pair(p, c_row + 16 * i, c_column + 8 * j, of_step[0], of_step[1]);
      put_pair(p, c_row + 16 * i + 8, c_column + 8 * j, of_step[2], of_step[3]);
    }
  }
}

template <class T>
KernelLaunch shape_of(const Product<T>& p) {
  return {address_of(multiply_by_mma<T>), dim3(p.n / edge, p.m / edge), dim3(threads)};
}
template <class T>
void enqueue(const Product<T>& p, cudaStream_t stream) {
  const KernelLaunch shape = shape_of(p);
  multiply_by_mma<<<shape.blocks, shape.threads, 0, stream>>>(p);
  check_launch("a product by mma");
}
template <class T>
constexpr ProductLaunch<T> launch = {shape_of<T>, enqueue<T>};

constexpr std::array for_floats = {
    ProductKernel<float>{"mma of tf32", mma_place,
                         "tensor cores multiply 16 x 8 x 8 elements; floats are cut to tf32", edge,
                         edge, Tiles<float>::depth, edge, edge, launch<float>,
                         CostOfMultiplyAdd{0.235, 0.167}, "tensor tf32"},
};

constexpr std::array for_bf16 = {
    ProductKernel<bf16>{"mma of bf16", mma_place,
                        "the type is bf16: half the bytes, 16 x 8 x 16 elements at a time", edge,
                        edge, Tiles<bf16>::depth, edge, edge, launch<bf16>,
                        CostOfMultiplyAdd{0.118, 0.0812}, "tensor bf16"},
};

}  // namespace

std::span<const ProductKernel<float>> mma_kernels_for_floats() {
  return for_floats;
}

std::span<const ProductKernel<bf16>> mma_kernels() {
  return for_bf16;
}

}  // namespace shardstream::experiments::ladders
