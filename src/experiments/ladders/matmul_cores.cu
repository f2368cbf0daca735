// The rungs of `matmul` on CUDA cores: first the guide's case, whose inner dimension is 32, then
// C = alpha A B + beta C. The order of the rungs is that of the file.
#include <cuda_pipeline.h>

#include <array>

#include "experiments/ladders/matmul.hpp"

namespace shardstream::experiments::ladders {
namespace {

// -------------------------------------------------------------- the guide's case: C = A B, k = 32

// The edge of a block and k are the length of a warp.

/// Thread (x, y) computes one element. The lanes of a warp read the same element of A at a time,
/// and neighbouring elements of B: every access is coalesced. But each element of A and B is loaded
/// again and again.
constexpr SourceLine plain_place = kernel_below();
__global__ void __launch_bounds__(warp* warp) multiply_plainly(const Product<float> p) {
  const unsigned row = blockIdx.y * warp + threadIdx.y, column = blockIdx.x * warp + threadIdx.x;
  float sum = 0;
  for (unsigned i = 0; i < warp; ++i) {
    sum = fmaf(p.a[std::uint64_t{row} * warp + i], p.b[std::uint64_t{i} * p.n + column], sum);
  }
  p.c[std::uint64_t{row} * p.n + column] = sum;
}

/// A's tile is loaded once. A warp computes one row of C, so it reads only the row of the tile that
/// it has written itself: no other warp has to wait, and __syncwarp() is enough.
constexpr SourceLine a_tile_place = kernel_below();
__global__ void __launch_bounds__(warp* warp) multiply_with_a_tile(const Product<float> p) {
  __shared__ float a[warp][warp];
  const unsigned row = blockIdx.y * warp + threadIdx.y, column = blockIdx.x * warp + threadIdx.x;
  a[threadIdx.y][threadIdx.x] = p.a[std::uint64_t{row} * warp + threadIdx.x];
  __syncwarp();
  float sum = 0;
  for (unsigned i = 0; i < warp; ++i) {
    sum = fmaf(a[threadIdx.y][i], p.b[std::uint64_t{i} * p.n + column], sum);
  }
  p.c[std::uint64_t{row} * p.n + column] = sum;
}

/// B's tile is loaded once, too. All warps read all of its rows, so the block has to wait.
constexpr SourceLine both_tiles_place = kernel_below();
__global__ void __launch_bounds__(warp* warp) multiply_with_both_tiles(const Product<float> p) {
  __shared__ float a[warp][warp], b[warp][warp];
  const unsigned row = blockIdx.y * warp + threadIdx.y, column = blockIdx.x * warp + threadIdx.x;
  a[threadIdx.y][threadIdx.x] = p.a[std::uint64_t{row} * warp + threadIdx.x];
  b[threadIdx.y][threadIdx.x] = p.b[std::uint64_t{threadIdx.y} * p.n + column];
  __syncthreads();
  float sum = 0;
  for (unsigned i = 0; i < warp; ++i) sum = fmaf(a[threadIdx.y][i], b[i][threadIdx.x], sum);
  p.c[std::uint64_t{row} * p.n + column] = sum;
}

// ---------------------------------------------------- any k: C = alpha A B + beta C, one output

__device__ void put(const Product<float>& p, unsigned row, unsigned column, float sum) {
  float& c = p.c[std::uint64_t{row} * p.n + column];
  c = fmaf(p.alpha, sum, p.beta * c);
}

/// As multiply_plainly, but for any k.
constexpr SourceLine without_place = kernel_below(2);
template <unsigned Edge>
__global__ void __launch_bounds__(Edge* Edge) multiply_without_tiles(const Product<float> p) {
  const unsigned row = blockIdx.y * Edge + threadIdx.y, column = blockIdx.x * Edge + threadIdx.x;
  const float* const a = p.a + std::uint64_t{row} * p.k;
  float sum = 0;
  for (unsigned i = 0; i < p.k; ++i) {
    sum = fmaf(a[i], p.b[std::uint64_t{i} * p.n + column], sum);
  }
  put(p, row, column, sum);
}

/// The block loads a tile of A and one of B at a time. Each element is used Edge times.
constexpr SourceLine tiles_place = kernel_below(2);
template <unsigned Edge>
__global__ void __launch_bounds__(Edge* Edge) multiply_in_tiles(const Product<float> p) {
  __shared__ float a[Edge][Edge], b[Edge][Edge];
  const unsigned x = threadIdx.x, y = threadIdx.y;
  const unsigned row = blockIdx.y * Edge + y, column = blockIdx.x * Edge + x;
  float sum = 0;
  for (unsigned first = 0; first < p.k; first += Edge) {
    a[y][x] = p.a[std::uint64_t{row} * p.k + first + x];
    b[y][x] = p.b[std::uint64_t{first + y} * p.n + column];
    __syncthreads();
    for (unsigned i = 0; i < Edge; ++i) sum = fmaf(a[y][i], b[i][x], sum);
    __syncthreads();  // before the next tiles replace these
  }
  put(p, row, column, sum);
}

// ------------------------------------------------ a tile of 128 x 128, 8 x 8 outputs in each
// thread

constexpr unsigned edge = 128;                // of the block's tile of C
constexpr unsigned depth = 16;                // of the tiles of A and B
constexpr unsigned each = 8;                  // rows and columns of a thread
constexpr unsigned side = edge / each;        // threads along an edge
constexpr unsigned threads = side * side;     // of a block
constexpr unsigned quads_of_row = depth / 4;  // words of 16 bytes in a row of A's tile

/// Thread (x, y) computes the elements at rows y, y + 16, ... and columns x, x + 16, ... It loads 8
/// elements of A and 8 of B from shared memory for 64 multiply-adds; one output needed two for one.
/// A's rows are padded by a word, so that rows begin in different banks.
constexpr SourceLine outputs_place = kernel_below();
__global__ void __launch_bounds__(threads, 2) multiply_8x8(const Product<float> p) {
  __shared__ float a[edge][depth + 1], b[depth][edge];
  const unsigned x = threadIdx.x % side, y = threadIdx.x / side;
  const float* const a_rows = p.a + std::uint64_t{blockIdx.y} * edge * p.k;
  const float* const b_columns = p.b + blockIdx.x * edge;
  float sums[each][each] = {};
  for (unsigned first = 0; first < p.k; first += depth) {
#pragma unroll
    for (unsigned i = threadIdx.x; i < edge * depth; i += threads) {
      a[i / depth][i % depth] = a_rows[std::uint64_t{i / depth} * p.k + first + i % depth];
      b[i / edge][i % edge] = b_columns[std::uint64_t{first + i / edge} * p.n + i % edge];
    }
    __syncthreads();
#pragma unroll
    for (unsigned k = 0; k < depth; ++k) {
      float of_a[each], of_b[each];
#pragma unroll
      for (unsigned i = 0; i < each; ++i) of_a[i] = a[y + side * i][k];
#pragma unroll
      for (unsigned j = 0; j < each; ++j) of_b[j] = b[k][x + side * j];
#pragma unroll
      for (unsigned i = 0; i < each; ++i) {
#pragma unroll
        for (unsigned j = 0; j < each; ++j) sums[i][j] = fmaf(of_a[i], of_b[j], sums[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (unsigned i = 0; i < each; ++i) {
#pragma unroll
    for (unsigned j = 0; j < each; ++j) {
      put(p, blockIdx.y * edge + y + side * i, blockIdx.x * edge + x + side * j, sums[i][j]);
    }
  }
}

// ------------------------------------------------------------------- the same in words of 16 bytes

/// Tiles of A and B in shared memory. A's rows are padded by 16 bytes, so that words of 16 bytes in
/// neighbouring rows lie in different banks.
struct Tiles {
  float4 a[edge][quads_of_row + 1];
  float4 b[depth][edge / 4];
};

/// The outputs of a thread: rows y, y + 16, ...; columns 4x to 4x + 3 and 64 + 4x to 64 + 4x + 3.
struct Outputs {
  float sums[each][each] = {};

  __device__ void add_row(unsigned i, float of_a, const float4& left, const float4& right) {
    const float of_b[each] = {left.x, left.y, left.z, left.w, right.x, right.y, right.z, right.w};
#pragma unroll
    for (unsigned j = 0; j < each; ++j) sums[i][j] = fmaf(of_a, of_b[j], sums[i][j]);
  }

  /// Adds the product of the tiles.
  __device__ void add(const Tiles& tiles, unsigned x, unsigned y) {
#pragma unroll 1  // an unrolled loop needs more registers than two blocks of this size have
    for (unsigned q = 0; q < quads_of_row; ++q) {
      float4 of_a[each];
#pragma unroll
      for (unsigned i = 0; i < each; ++i) of_a[i] = tiles.a[y + side * i][q];
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) {
        const float4 left = tiles.b[4 * q + k][x], right = tiles.b[4 * q + k][side + x];
#pragma unroll
        for (unsigned i = 0; i < each; ++i) {
          const float4& word = of_a[i];
          add_row(i, k == 0 ? word.x : k == 1 ? word.y : k == 2 ? word.z : word.w, left, right);
        }
      }
    }
  }

  __device__ void store(const Product<float>& p, unsigned x, unsigned y) const {
#pragma unroll
    for (unsigned i = 0; i < each; ++i) {
      float* const row = p.c + std::uint64_t{blockIdx.y * edge + y + side * i} * p.n;
#pragma unroll
      for (unsigned half = 0; half < 2; ++half) {
        auto* const word = reinterpret_cast<float4*>(row + blockIdx.x * edge) + half * side + x;
        const float* const sum = &sums[i][4 * half];
        const float4 c = *word;
        *word = {fmaf(p.alpha, sum[0], p.beta * c.x), fmaf(p.alpha, sum[1], p.beta * c.y),
                 fmaf(p.alpha, sum[2], p.beta * c.z), fmaf(p.alpha, sum[3], p.beta * c.w)};
      }
    }
  }
};

/// Calls copy(to, from) for each word of 16 bytes of the tiles that thread i of the block loads.
template <class Copy>
__device__ void load_tiles(const Product<float>& p, unsigned first, Tiles& tiles, Copy copy) {
  const float* const a_rows = p.a + std::uint64_t{blockIdx.y} * edge * p.k + first;
  const float* const b_rows = p.b + std::uint64_t{first} * p.n + blockIdx.x * edge;
#pragma unroll
  for (unsigned i = threadIdx.x; i < edge * quads_of_row; i += threads) {
    const unsigned row = i / quads_of_row, quad = i % quads_of_row;
    copy(&tiles.a[row][quad],
         reinterpret_cast<const float4*>(a_rows + std::uint64_t{row} * p.k) + quad);
  }
#pragma unroll
  for (unsigned i = threadIdx.x; i < depth * (edge / 4); i += threads) {
    const unsigned row = i / (edge / 4), quad = i % (edge / 4);
    copy(&tiles.b[row][quad],
         reinterpret_cast<const float4*>(b_rows + std::uint64_t{row} * p.n) + quad);
  }
}

/// All loads and stores move 16 bytes, so a thread needs a quarter as many instructions for them.
constexpr SourceLine wide_place = kernel_below();
__global__ void __launch_bounds__(threads, 2) multiply_in_wide_words(const Product<float> p) {
  __shared__ Tiles tiles;
  const unsigned x = threadIdx.x % side, y = threadIdx.x / side;
  Outputs outputs;
  for (unsigned first = 0; first < p.k; first += depth) {
    load_tiles(p, first, tiles, [](float4* to, const float4* from) { *to = *from; });
    __syncthreads();
    outputs.add(tiles, x, y);
    __syncthreads();
  }
  outputs.store(p, x, y);
}

/// The next tiles are copied, without registers between, while the block computes with these.
constexpr SourceLine double_place = kernel_below();
__global__ void __launch_bounds__(threads, 2) multiply_double_buffered(const Product<float> p) {
  __shared__ Tiles tiles[2];
  const unsigned x = threadIdx.x % side, y = threadIdx.x / side;
  const auto begin_copy = [&](unsigned first, Tiles& to) {
    if (first < p.k) {
      load_tiles(p, first, to, [](float4* word, const float4* from) {
        __pipeline_memcpy_async(word, from, sizeof(float4));
      });
    }
    __pipeline_commit();
  };
  Outputs outputs;
  begin_copy(0, tiles[0]);
  for (unsigned first = 0, now = 0; first < p.k; first += depth, now = 1 - now) {
    begin_copy(first + depth, tiles[1 - now]);
    __pipeline_wait_prior(1);  // all copies but the last ones, which are of the next tiles
    __syncthreads();
    outputs.add(tiles[now], x, y);
    __syncthreads();  // before the copies after next replace these tiles
  }
  outputs.store(p, x, y);
}

// -------------------------------------------------------------------------------------- launches

/// Blocks of Edge x Edge threads, each of which computes one output.
template <void (*Kernel)(Product<float>), unsigned Edge>
KernelLaunch shape_of_square(const Product<float>& p) {
  return {address_of(Kernel), dim3(p.n / Edge, p.m / Edge), dim3(Edge, Edge)};
}
template <void (*Kernel)(Product<float>), unsigned Edge>
void enqueue_square(const Product<float>& p, cudaStream_t stream) {
  const KernelLaunch shape = shape_of_square<Kernel, Edge>(p);
  Kernel<<<shape.blocks, shape.threads, 0, stream>>>(p);
  check_launch("a product with one output a thread");
}
template <void (*Kernel)(Product<float>), unsigned Edge>
constexpr ProductLaunch<float> launch_square = {shape_of_square<Kernel, Edge>,
                                                enqueue_square<Kernel, Edge>};

template <void (*Kernel)(Product<float>)>
KernelLaunch shape_of_tile(const Product<float>& p) {
  return {address_of(Kernel), dim3(p.n / edge, p.m / edge), dim3(threads)};
}
template <void (*Kernel)(Product<float>)>
void enqueue_tile(const Product<float>& p, cudaStream_t stream) {
  const KernelLaunch shape = shape_of_tile<Kernel>(p);
  Kernel<<<shape.blocks, shape.threads, 0, stream>>>(p);
  check_launch("a product with 8 x 8 outputs a thread");
}
template <void (*Kernel)(Product<float>)>
constexpr ProductLaunch<float> launch_tile = {shape_of_tile<Kernel>, enqueue_tile<Kernel>};

constexpr std::array narrow = {
    ProductKernel<float>{"plain", plain_place, "one output a thread, all from global memory", 32,
                         32, 32, 1, 1, launch_square<multiply_plainly, warp>,
                         CostOfMultiplyAdd{0.25, 4.59}},
    ProductKernel<float>{"A in shared memory", a_tile_place,
                         "A's tile in shared memory; a barrier of the warp is enough", 32, 32, 32,
                         32, 1, launch_square<multiply_with_a_tile, warp>,
                         CostOfMultiplyAdd{2.4, 4.19}},
    ProductKernel<float>{"A and B in shared memory", both_tiles_place,
                         "B's tile, too; a barrier of the block", 32, 32, 32, 32, 32,
                         launch_square<multiply_with_both_tiles, warp>,
                         CostOfMultiplyAdd{6.59, 3.5}},
};

constexpr std::array cores = {
    ProductKernel<float>{"no shared memory", without_place,
                         "16 x 16 threads, one output each, all from global memory", 16, 16, 1, 1,
                         1, launch_square<multiply_without_tiles<16>, 16>,
                         CostOfMultiplyAdd{0.01, 5.93}},
    ProductKernel<float>{"16 x 16 tile", tiles_place, "tiles of A and B in shared memory", 16, 16,
                         16, 16, 16, launch_square<multiply_in_tiles<16>, 16>,
                         CostOfMultiplyAdd{6.61, 3.39}},
    ProductKernel<float>{"32 x 32 tile", tiles_place,
                         "larger tiles: each element is used twice "
                         "as often",
                         32, 32, 32, 32, 32, launch_square<multiply_in_tiles<32>, 32>,
                         CostOfMultiplyAdd{6.32, 2.95}},
    ProductKernel<float>{"8 x 8 outputs", outputs_place,
                         "a tile of 128 x 128, 8 x 8 outputs in the registers of each thread", edge,
                         edge, depth, edge, edge, launch_tile<multiply_8x8>,
                         CostOfMultiplyAdd{1.11, 1.47}},
    ProductKernel<float>{"16-byte loads", wide_place, "loads and stores of 16 bytes", edge, edge,
                         depth, edge, edge, launch_tile<multiply_in_wide_words>,
                         CostOfMultiplyAdd{0.865, 1.23}},
    ProductKernel<float>{"double buffering", double_place,
                         "cp.async copies the next tiles during the computation", edge, edge, depth,
                         edge, edge, launch_tile<multiply_double_buffered>,
                         CostOfMultiplyAdd{0.798, 1.21}},
};

}  // namespace

std::span<const ProductKernel<float>> narrow_kernels() {
  return narrow;
}

std::span<const ProductKernel<float>> core_kernels() {
  return cores;
}

}  // namespace shardstream::experiments::ladders
