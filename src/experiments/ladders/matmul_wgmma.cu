// The rungs of `matmul` on tensor cores by wgmma. A bulk copy (TMA) brings a whole tile into shared
// memory, and a warpgroup of 128 threads multiplies from there, without registers between. Stages
// of a ring hold the tiles of successive steps along k. This file is compiled for the architecture
// sm_90a alone, and used on compute capability 9.0 only.
#include <cudaTypedefs.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/error.hpp"
#include "experiments/driver_function.hpp"
#include "experiments/ladders/matmul.hpp"
#include "experiments/ladders/wgmma.cuh"
#include "experiments/launch_attributes.cuh"

namespace shardstream::experiments::ladders {
namespace {

constexpr unsigned warpgroup = 128;  // threads
constexpr unsigned rows = 128;       // of the block's tile of C: 64 for each of two warpgroups
constexpr unsigned depth = 64;       // of a step along k: 128 bytes, the width of a swizzle
constexpr unsigned box = 64;         // columns of B in a box: 128 bytes, too
constexpr unsigned group_bytes = 8 * depth * sizeof(bf16);  // 8 rows of 128 bytes
constexpr unsigned box_bytes = depth * box * sizeof(bf16);  // a box of B
constexpr unsigned k_of_product = 16;                       // of one wgmma

/// The tiles of one step, as bulk copies write them: A's rows of 64 elements, then boxes of B, each
/// of 64 rows with 64 columns.
template <unsigned Columns>
struct Stage {
  bf16 a[rows * depth];
  bf16 b[depth * Columns];
};

/// Stages with two barriers each: `full` after the copies, `empty` when the stage may be replaced.
template <unsigned Columns, unsigned Count>
struct Ring {
  Stage<Columns> stages[Count];
  Barrier full[Count], empty[Count];
};

constexpr unsigned alignment = 1024;  // of swizzled tiles

/// The ring in dynamic shared memory of sizeof(Ring) + alignment bytes.
template <class Ring>
__device__ Ring& ring_of_block() {
  extern __shared__ std::byte memory[];
  const unsigned beyond = shared_address(memory) % alignment;
  return *reinterpret_cast<Ring*>(memory + (alignment - beyond) % alignment);
}

/// A stage of a ring, and the parity of the phase of its barrier `full`.
template <unsigned Count>
struct Position {
  unsigned stage = 0, parity = 0;

  __device__ void advance() {
    if (++stage < Count) return;
    stage = 0;
    parity ^= 1;
  }
};

/// Begins the copies of a step, which begins at index `k`, for the tile of C at (row, column).
template <unsigned Columns>
__device__ void begin_step(Stage<Columns>& stage, Barrier& full, const CUtensorMap& a,
                           const CUtensorMap& b, unsigned row, unsigned column, unsigned k) {
  full.arrive_and_expect(sizeof(stage));
  begin_copy(stage.a, a, full, row, k);
  for (unsigned i = 0; i < Columns / box; ++i) {
    begin_copy(stage.b + i * depth * box, b, full, k, column + i * box);
  }
}

/// The same for a cluster whose blocks have tiles of C in the same columns. Each block copies its
/// part of the boxes of B, for all blocks. A stage must be empty in all blocks.
template <unsigned Cluster, unsigned Columns>
__device__ void begin_shared_step(Stage<Columns>& stage, Barrier& full, const CUtensorMap& a,
                                  const CUtensorMap& b, unsigned row, unsigned column, unsigned k) {
  constexpr unsigned own = Columns / box / Cluster;
  full.arrive_and_expect(sizeof(stage));  // the bytes that come from the other blocks count, too
  begin_copy(stage.a, a, full, row, k);
  for (unsigned i = rank_in_cluster() * own, end = i + own; i < end; ++i) {
    begin_multicast(stage.b + i * depth * box, b, full, k, column + i * box, (1U << Cluster) - 1);
  }
}

/// Begins to add the product of a stage to the sums of a warpgroup, which is the first or the
/// second one (`part` 0 or 1).
template <unsigned Columns>
__device__ void begin_stage(float (&sums)[Columns / 2], const Stage<Columns>& stage,
                            unsigned part) {
  // A's rows lie along k: a product needs 32 bytes of each, inside one block of 64 elements. B's
  // rows lie along the columns of C: a product needs 16 whole rows of each box.
  const std::uint64_t a = describe(stage.a + part * (rows / 2) * depth, group_bytes, 0);
  const std::uint64_t b = describe(stage.b, group_bytes, box_bytes);
  pin(sums);
  __syncwarp();  // all lanes of a warp have to call the following together
  begin_products();
#pragma unroll
  for (unsigned k = 0; k < depth; k += k_of_product) {
    begin_multiply_add(sums, behind(a, k * sizeof(bf16)), behind(b, k * box * sizeof(bf16)));
  }
  end_group();
}

/// Stores the sums of a warpgroup, whose first element is at (row, column) of C.
template <unsigned Count>
__device__ void store(const Product<bf16>& p, const float (&sums)[Count], unsigned row,
                      unsigned column) {
  constexpr unsigned at_once = 16;  // so that many loads of C are in flight
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x % warpgroup / 32;
  float* const first =
      p.c + std::uint64_t{row + 16 * warp + lane / 4} * p.n + column + lane % 4 * 2;
  float2* const top = reinterpret_cast<float2*>(first);
  float2* const bottom = reinterpret_cast<float2*>(first + std::uint64_t{8} * p.n);
  const auto blend = [&p](const float2& c, float left, float right) {
    return float2{fmaf(p.alpha, left, p.beta * c.x), fmaf(p.alpha, right, p.beta * c.y)};
  };
#pragma unroll
  for (unsigned i = 0; i < Count / 4; i += at_once) {
    float2 c[2][at_once];
#pragma unroll
    for (unsigned j = 0; j < at_once; ++j) {
      c[0][j] = __ldcs(&top[(i + j) * 4]);
      c[1][j] = __ldcs(&bottom[(i + j) * 4]);
    }
#pragma unroll
    for (unsigned j = 0; j < at_once; ++j) {
      const float* const of_lane = &sums[(i + j) * 4];
      __stcs(&top[(i + j) * 4], blend(c[0][j], of_lane[0], of_lane[1]));
      __stcs(&bottom[(i + j) * 4], blend(c[1][j], of_lane[2], of_lane[3]));
    }
  }
}

// ------------------------------------------------------------------- all warps copy and multiply

/// Two warpgroups multiply. As soon as both have finished a stage, one thread begins the copies of
/// the step that takes its place.
constexpr SourceLine bulk_place = kernel_below(2);
template <unsigned Columns, unsigned Stages>
__global__ void __launch_bounds__(2 * warpgroup, Columns == 128 ? 2 : 1)
    multiply_in_bulk(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                     const Product<bf16> p) {
  auto& ring = ring_of_block<Ring<Columns, Stages>>();
  const unsigned row = blockIdx.y * rows, column = blockIdx.x * Columns, steps = p.k / depth;
  const auto begin = [&](unsigned step) {
    const unsigned stage = step % Stages;
    begin_step(ring.stages[stage], ring.full[stage], a, b, row, column, step * depth);
  };
  if (threadIdx.x == 0) {
    for (Barrier& full : ring.full) full.init(1);
    publish_barriers();
    for (unsigned step = 0; step < min(Stages, steps); ++step) begin(step);
  }
  __syncthreads();
  const unsigned part = threadIdx.x / warpgroup;
  float sums[Columns / 2] = {};
  Position<Stages> now;
  for (unsigned step = 0; step < steps; ++step, now.advance()) {
    ring.full[now.stage].wait(now.parity);
    begin_stage<Columns>(sums, ring.stages[now.stage], part);
    wait_for_products<0>();
    __syncthreads();
    if (threadIdx.x == 0 && step + Stages < steps) begin(step + Stages);
  }
  pin(sums);
  store(p, sums, row + part * (rows / 2), column);
}

// --------------------------------------------------------------------------- specialised warps

constexpr unsigned wide = 256;  // columns of the tile
constexpr unsigned stages = 4;
constexpr unsigned consumers = 2;  // warpgroups
// The registers of a thread, of 168 that the launch gives to each: 40 + 2 * 232 <= 3 * 168.
constexpr unsigned registers_of_producer = 40, registers_of_consumer = 232;
using WideRing = Ring<wide, stages>;

/// The order of the tiles of C: down through bands of `band` rows of tiles, column by column. Tiles
/// that are computed at the same time share rows of A and columns of B, in the L2 cache.
struct Order {
  unsigned m_tiles, n_tiles;
  unsigned band;

  __device__ unsigned tiles() const { return m_tiles * n_tiles; }
  /// The first row and column of tile `i`, in elements.
  __device__ uint2 at(unsigned i) const {
    const unsigned first = i / (band * n_tiles) * band, height = min(band, m_tiles - first);
    const unsigned in_band = i - first * n_tiles;
    return {(first + in_band % height) * rows, in_band / height * wide};
  }
};

/// The producer, one thread: copies the steps of all tiles of the block into the ring. The blocks
/// of a cluster do the same steps.
template <unsigned Cluster>
__device__ void produce(WideRing& ring, const CUtensorMap& a, const CUtensorMap& b,
                        const Order& order, unsigned k) {
  Position<stages> now;
  for (unsigned i = blockIdx.x; i < order.tiles(); i += gridDim.x) {
    const uint2 tile = order.at(i);
    for (unsigned first = 0; first < k; first += depth, now.advance()) {
      auto& stage = ring.stages[now.stage];
      Barrier &full = ring.full[now.stage], &empty = ring.empty[now.stage];
      // In the first round, the wait ends at once.
      if constexpr (Cluster == 1) {
        empty.wait(now.parity ^ 1);
        begin_step(stage, full, a, b, tile.x, tile.y, first);
      } else {
        empty.wait_for_cluster(now.parity ^ 1);
        begin_shared_step<Cluster>(stage, full, a, b, tile.x, tile.y, first);
      }
    }
  }
}

/// Consumer `part`, a warpgroup: multiplies, and stores half of each tile. One group of products is
/// always pending, so that the tensor cores need not wait for the next one. A warp releases a stage
/// when the group after it has begun, in all blocks of the cluster.
template <unsigned Cluster>
__device__ void consume(WideRing& ring, const Product<bf16>& p, const Order& order, unsigned part) {
  Position<stages> now;
  const auto release = [&ring](unsigned stage) {
    const unsigned lane = threadIdx.x % 32;
    if constexpr (Cluster == 1) {
      if (lane == 0) ring.empty[stage].arrive();
    } else {
      if (lane < Cluster) ring.empty[stage].arrive_at(lane);
    }
  };
  for (unsigned i = blockIdx.x; i < order.tiles(); i += gridDim.x) {
    float sums[wide / 2] = {};
    ring.full[now.stage].wait(now.parity);
    begin_stage<wide>(sums, ring.stages[now.stage], part);
    unsigned before = now.stage;
    now.advance();
    for (unsigned first = depth; first < p.k; first += depth) {
      ring.full[now.stage].wait(now.parity);
      begin_stage<wide>(sums, ring.stages[now.stage], part);
      wait_for_products<1>();
      release(before);
      before = now.stage;
      now.advance();
    }
    wait_for_products<0>();
    release(before);
    pin(sums);
    const uint2 tile = order.at(i);
    store(p, sums, tile.x + part * (rows / 2), tile.y);
  }
}

/// The first warpgroup copies, the other two multiply; they wait for each other only at the
/// barriers of the ring. The producer needs few registers and gives the rest to the consumers. A
/// block takes every gridDim.x-th tile: while the consumers store a tile, the producer already
/// fills the ring for the next one. If `Cluster` is not 1, the grid has clusters of as many blocks.
constexpr SourceLine specialised_place = kernel_below(2);
template <unsigned Cluster>
__global__ void __launch_bounds__((1 + consumers) * warpgroup, 1)
    multiply_specialised(const __grid_constant__ CUtensorMap a,
                         const __grid_constant__ CUtensorMap b, const Product<bf16> p,
                         const Order order) {
  auto& ring = ring_of_block<WideRing>();
  if (threadIdx.x == 0) {
    for (Barrier& full : ring.full) full.init(1);
    for (Barrier& empty : ring.empty) empty.init(Cluster * consumers * warpgroup / 32);
    publish_barriers();
  }
  if constexpr (Cluster == 1) {
    __syncthreads();
  } else {
    synchronize_cluster();
  }
  const unsigned role = threadIdx.x / warpgroup;
  if (role == 0) {
    release_registers<registers_of_producer>();
    if (threadIdx.x == 0) produce<Cluster>(ring, a, b, order, p.k);
  } else {
    take_registers<registers_of_consumer>();
    consume<Cluster>(ring, p, order, role - 1);
  }
  if constexpr (Cluster != 1) {
    __syncwarp();           // the producer's warp waits for its first lane
    synchronize_cluster();  // no block may end while others use its barriers
  }
}

// -------------------------------------------------------------------------------------- launches

/// The map of a row-major matrix for bulk copies of boxes, whose rows of 64 elements are swizzled
/// in shared memory.
CUtensorMap map_of(const bf16* matrix, unsigned m, unsigned n, unsigned rows_of_box) {
  const cuuint64_t edges[] = {n, m}, pitch[] = {n * sizeof(bf16)};
  const cuuint32_t edges_of_box[] = {box, rows_of_box}, steps[] = {1, 1};
  CUtensorMap map;
  const auto encode =
      driver_function<PFN_cuTensorMapEncodeTiled_v12000>("cuTensorMapEncodeTiled", 12000);
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<bf16*>(matrix), edges, pitch,
             edges_of_box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw Error("cuTensorMapEncodeTiled failed (" + std::to_string(static_cast<int>(result)) + ")");
  }
  return map;
}
CUtensorMap map_of_a(const Product<bf16>& p) {
  return map_of(p.a, p.m, p.k, rows);
}
CUtensorMap map_of_b(const Product<bf16>& p) {
  return map_of(p.b, p.k, p.n, depth);
}

/// Lets a kernel have a ring of this type. Returns the bytes of dynamic shared memory.
template <class Ring, class Kernel>
unsigned allow_ring(Kernel kernel) {
  constexpr int bytes = sizeof(Ring) + alignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "cudaFuncSetAttribute");
  return bytes;
}

/// The shape of the launch. Lets the kernel have its ring.
template <unsigned Columns, unsigned Stages>
KernelLaunch shape_of_bulk(const Product<bf16>& p) {
  constexpr auto kernel = multiply_in_bulk<Columns, Stages>;
  return {address_of(kernel), dim3(p.n / Columns, p.m / rows), dim3(2 * warpgroup),
          allow_ring<Ring<Columns, Stages>>(kernel)};
}
template <unsigned Columns, unsigned Stages>
void enqueue_bulk(const Product<bf16>& p, cudaStream_t stream) {
  const KernelLaunch shape = shape_of_bulk<Columns, Stages>(p);
  multiply_in_bulk<Columns, Stages>
      <<<shape.blocks, shape.threads, shape.shared, stream>>>(map_of_a(p), map_of_b(p), p);
  check_launch("multiply_in_bulk");
}
template <unsigned Columns, unsigned Stages>
constexpr ProductLaunch<bf16> launch_bulk = {shape_of_bulk<Columns, Stages>,
                                             enqueue_bulk<Columns, Stages>};

/// The blocks of a launch.
enum class Blocks {
  for_each_tile,       ///< each computes one tile
  for_multiprocessors  ///< each stays on its multiprocessor and computes several tiles
};

/// The number of blocks that stay: up to one for each multiprocessor, in whole clusters.
unsigned staying_blocks(unsigned tiles, unsigned cluster) {
  int gpu = 0, multiprocessors = 0;
  check(cudaGetDevice(&gpu), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, gpu),
        "cudaDeviceGetAttribute");
  return std::min(tiles, static_cast<unsigned>(multiprocessors)) / cluster * cluster;
}

/// The shape of the launch. Lets the kernel have its ring.
template <Blocks Which, unsigned Cluster>
KernelLaunch shape_of_specialised(const Product<bf16>& p) {
  constexpr auto kernel = multiply_specialised<Cluster>;
  const unsigned tiles = p.m / rows * (p.n / wide);
  const unsigned blocks =
      Which == Blocks::for_multiprocessors ? staying_blocks(tiles, Cluster) : tiles;
  return {address_of(kernel), dim3(blocks), dim3((1 + consumers) * warpgroup),
          allow_ring<WideRing>(kernel)};
}

/// The tiles of a cluster are neighbours in the order: `Band` and the rows of tiles of C must be
/// multiples of `Cluster`.
template <Blocks Which, unsigned Band, unsigned Cluster>
void enqueue_specialised(const Product<bf16>& p, cudaStream_t stream) {
  static_assert(Band % Cluster == 0);
  constexpr auto kernel = multiply_specialised<Cluster>;
  const KernelLaunch shape = shape_of_specialised<Which, Cluster>(p);
  const Order order{p.m / rows, p.n / wide, Band};
  if constexpr (Cluster == 1) {
    kernel<<<shape.blocks, shape.threads, shape.shared, stream>>>(map_of_a(p), map_of_b(p), p,
                                                                  order);
    check_launch("multiply_specialised");
  } else {
    const AttributedLaunch launch(shape.blocks.x, shape.threads.x, stream, in_clusters_of(Cluster),
                                  shape.shared);
    launch(kernel, map_of_a(p), map_of_b(p), p, order);
  }
}
template <Blocks Which, unsigned Band, unsigned Cluster = 1>
constexpr ProductLaunch<bf16> launch_specialised = {shape_of_specialised<Which, Cluster>,
                                                    enqueue_specialised<Which, Band, Cluster>};

constexpr CostOfMultiplyAdd specialised_cost = {0.078, 0.0139};

constexpr std::array kernels = {
    ProductKernel<bf16>{"bulk copies, wgmma", bulk_place,
                        "bulk copies; a warpgroup multiplies 64 x 128 x 16 from shared memory",
                        rows, 128, depth, 128, rows, launch_bulk<128, 3>,
                        CostOfMultiplyAdd{0.094, 0.0219}, "tensor bf16"},
    ProductKernel<bf16>{
        "128 x 256 tile", bulk_place,
        "a wider tile: a row of A is read once for 256 columns; one block a multiprocessor", rows,
        wide, depth, wide, rows, launch_bulk<wide, stages>, CostOfMultiplyAdd{0.078, 0.0127},
        "tensor bf16"},
    ProductKernel<bf16>{"specialised warps", specialised_place,
                        "a warpgroup copies for two that multiply on: no barrier of the block",
                        rows, wide, depth, wide, rows, launch_specialised<Blocks::for_each_tile, 1>,
                        specialised_cost, "tensor bf16"},
    ProductKernel<bf16>{"blocks that stay", specialised_place,
                        "one block a multiprocessor; the next tile is copied during stores", rows,
                        wide, depth, wide, rows, launch_specialised<Blocks::for_multiprocessors, 1>,
                        specialised_cost, "tensor bf16"},
    ProductKernel<bf16>{"order of tiles", specialised_place,
                        "bands of 16 tiles, so that blocks share tiles in the L2 cache", rows, wide,
                        depth, wide, rows, launch_specialised<Blocks::for_multiprocessors, 16>,
                        specialised_cost, "tensor bf16"},
    ProductKernel<bf16>{"multicast", specialised_place,
                        "clusters of two blocks: each copies half of a tile of B for both",
                        2 * rows, wide, depth, wide, 2 * rows,
                        launch_specialised<Blocks::for_multiprocessors, 16, 2>, specialised_cost,
                        "tensor bf16"},
};

}  // namespace

std::span<const ProductKernel<bf16>> wgmma_kernels() {
  return kernels;
}

}  // namespace shardstream::experiments::ladders
