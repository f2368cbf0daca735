// The product of a matrix and its own transpose. Both factors are rows of the same matrix, so that
// the second one is read along columns of the block: first strides cost, then conflicts of banks.
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/ladders/gram.hpp"
#include "experiments/ladders/library_product.hpp"

namespace shardstream::experiments::ladders {

Table gram(Bench& bench);

namespace {

/// The time in ms, from that of the rung `padded`. The explanation counts the turns of the L1 cache
/// and of shared memory. With the symmetry, only the stores of C take as long as before.
double time_by_turns(const MeasuredRow& row) {
  const std::string rung = row.text("rung");
  const double padded = row.measured({{"rung", "padded"}}, {"case"});
  if (rung == "plain") return padded * 32 * 33 / 66;
  if (rung == "shared memory") return padded * 97 / 66;
  if (rung != "symmetry") return std::nan("");
  const double stores = row["distinct"] / row.ceiling("device_copy");
  const double part = row["operations"] / row.of_row("operations", {{"rung", "padded"}}, {"case"});
  return stores + part * (padded - stores);
}

}  // namespace

extern const Experiment about_gram = {
    .name = "gram",
    .group = "ladders",
    .summary =
        "The product of a matrix and its transpose: strided reads, bank conflicts, symmetry.",
    .explanation =
        {
            .question = "Which changes make the product of a matrix and its transpose fast?",
            .varies =
                "C = A A^T with blocks of 32 x 32 threads, one output each. In the plain kernel, "
                "the lanes of a warp read one column of the second factor, whose elements lie a "
                "row of A apart. Then both factors pass through tiles in shared memory, which are "
                "filled in whole lines. A rung adds a word of padding to each row of the second "
                "tile. Since C is symmetric, the last rung computes only tiles on and below the "
                "diagonal, and stores each one twice, the second time transposed through shared "
                "memory. First A has 32 columns, as in the guide: C takes most of the bytes, and "
                "the share is of the rate of a copy. Then A is square, and the share is of "
                "cuBLASLt, which computes all of C. The table has the `registers` of a thread, the "
                "`shared` memory of a block, the theoretical `occupancy`, and in `wave_occupancy` "
                "its mean over the waves of the grid, calculated as if all blocks took equally "
                "long; in `symmetry` they do not. `matmul` has the rungs beyond one output a "
                "thread.",
            .expectation =
                "In the plain kernel, each lane needs a sector of its own, so a load of the second "
                "factor takes 32 turns of the L1 cache and one of the first takes one: 33 for each "
                "of 32 multiply-adds of a warp. Through tiles, the warp needs 64 loads and 2 "
                "stores for them, 66 turns of shared memory, which is a sixteenth. The second tile "
                "is written along a column, so without padding all 32 words lie in one bank: one "
                "of the stores takes 32 turns, 97 in all. Expect the tiles to bring the largest "
                "step and the padding a smaller one. Expect the symmetry to save about half of the "
                "time for the square matrix, but less with 32 columns, where stores of C, at the "
                "rate of a copy, are a part of it that stays.",
            .pitfalls =
                "The last rung computes half of C. The rate counts all of C for every rung, so "
                "that the rungs compare.",
        },
    .read_on = {{Guide::best_practices, "Shared Memory in Matrix Multiplication (C=AAT)",
                 "shared-memory-in-matrix-multiplication-c-aa"}},
    .reference =
        "Tesla V100, 32 columns, useful bytes: plain 12.8 GB/s, shared memory 140.2 GB/s, padded "
        "199.4 GB/s.",
    .share =
        "with 32 columns, of the rate of a copy in device memory; otherwise of cuBLASLt's product",
    .expected = time_by_turns,
    .exercise = {.task = "Predict the time in ms with 32 columns of the rungs `plain`, "
                         "`shared memory` and `symmetry`, if `padded` takes 0.6 ms and C 0.06 ms "
                         "of it.",
                 .rows = {{{"case", "32 columns"}, {"rung", "plain"}},
                          {{"case", "32 columns"}, {"rung", "shared memory"}},
                          {{"case", "32 columns"}, {"rung", "symmetry"}}}},
    .figure = {.look = Look::steps,
               .x = "rung",
               .y = "time",
               .panel = "case",
               .log_y = true,
               .more_is_better = false},
    .needs = {.ceilings = {"device_copy"}},
    .run = with_cuda<gram>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned edge = 32;  // of a block and of its tiles; the length of a warp

/// Thread (x, y) computes one element. In the second factor, neighbouring lanes read words that lie
/// a row of A apart.
constexpr SourceLine plain_place = kernel_below();
__global__ void __launch_bounds__(edge* edge) square_plainly(const Product<float> p) {
  const unsigned row = blockIdx.y * edge + threadIdx.y, column = blockIdx.x * edge + threadIdx.x;
  const float* const left = p.a + std::uint64_t{row} * p.k;
  const float* const right = p.a + std::uint64_t{column} * p.k;
  float sum = 0;
  for (unsigned i = 0; i < p.k; ++i) sum = fmaf(left[i], right[i], sum);
  p.c[std::uint64_t{row} * p.n + column] = sum;
}

/// Tiles in shared memory. `right` holds rows of A as columns, with `Padding` more words per row.
template <unsigned Padding>
struct Tiles {
  float left[edge][edge];
  float right[edge][edge + Padding];
};

/// One element of the product. A is read in whole lines. Writing a line into a column of `right`
/// needs 32 accesses to one bank, unless rows are padded.
template <unsigned Padding>
__device__ float sum_through(Tiles<Padding>& tiles, const Product<float>& p) {
  const unsigned x = threadIdx.x, y = threadIdx.y;
  const float* const left = p.a + std::uint64_t{blockIdx.y * edge + y} * p.k + x;
  const float* const right = p.a + std::uint64_t{blockIdx.x * edge + y} * p.k + x;
  float sum = 0;
  for (unsigned first = 0; first < p.k; first += edge) {
    tiles.left[y][x] = left[first];
    tiles.right[x][y] = right[first];
    __syncthreads();
    for (unsigned i = 0; i < edge; ++i) sum = fmaf(tiles.left[y][i], tiles.right[i][x], sum);
    __syncthreads();  // before the next tiles replace these
  }
  return sum;
}

constexpr SourceLine tiles_place = kernel_below(2);
template <unsigned Padding>
__global__ void __launch_bounds__(edge* edge) square_through_tiles(const Product<float> p) {
  __shared__ Tiles<Padding> tiles;
  const float sum = sum_through(tiles, p);
  const unsigned row = blockIdx.y * edge + threadIdx.y, column = blockIdx.x * edge + threadIdx.x;
  p.c[std::uint64_t{row} * p.n + column] = sum;
}

/// Blocks above the diagonal do nothing. The others also store their tile as its mirror image,
/// which they transpose in shared memory, so that both stores fill whole lines.
constexpr SourceLine symmetric_place = kernel_below();
__global__ void __launch_bounds__(edge* edge) square_symmetrically(const Product<float> p) {
  if (blockIdx.x > blockIdx.y) return;
  __shared__ Tiles<1> tiles;
  const unsigned x = threadIdx.x, y = threadIdx.y;
  const float sum = sum_through(tiles, p);
  p.c[std::uint64_t{blockIdx.y * edge + y} * p.n + blockIdx.x * edge + x] = sum;
  if (blockIdx.x == blockIdx.y) return;
  tiles.right[y][x] = sum;
  __syncthreads();
  p.c[std::uint64_t{blockIdx.x * edge + y} * p.n + blockIdx.y * edge + x] = tiles.right[x][y];
}

template <void (*Kernel)(Product<float>)>
KernelLaunch shape_of(const Product<float>& p) {
  return {address_of(Kernel), dim3(p.n / edge, p.m / edge), dim3(edge, edge)};
}
template <void (*Kernel)(Product<float>)>
void enqueue(const Product<float>& p, cudaStream_t stream) {
  const KernelLaunch shape = shape_of<Kernel>(p);
  Kernel<<<shape.blocks, shape.threads, 0, stream>>>(p);
  check_launch("a product with the transpose");
}
template <void (*Kernel)(Product<float>)>
constexpr ProductLaunch<float> launch = {shape_of<Kernel>, enqueue<Kernel>};

constexpr std::array kernels = {
    ProductKernel<float>{"plain", plain_place, "one output a thread, all from global memory", edge,
                         edge, 1, 1, 1, launch<square_plainly>},
    ProductKernel<float>{"shared memory", tiles_place,
                         "whole lines through tiles; writes conflict in one bank", edge, edge, edge,
                         edge, edge, launch<square_through_tiles<0>>},
    ProductKernel<float>{"padded", tiles_place, "one word of padding in each row of a tile", edge,
                         edge, edge, edge, edge, launch<square_through_tiles<1>>},
    ProductKernel<float>{"symmetry",
                         symmetric_place,
                         "only tiles on and below the diagonal, stored twice",
                         edge,
                         edge,
                         edge,
                         edge,
                         edge,
                         launch<square_symmetrically>,
                         {},
                         "fp32",
                         ComputedPart::lower_tiles},
};

/// A and C of a product with the transpose, and their check.
struct Square {
  DeviceArray<float> a, c;
  Product<float> p;
  ProductCheck check;

  Square(unsigned m, unsigned k, cudaStream_t stream)
      : a(std::uint64_t{m} * k),
        c(std::uint64_t{m} * m),
        p{filled(stream), a.data(), c.data(), m, m, k},
        check(p, BGiven::transposed, stream) {}

 private:
  const float* filled(cudaStream_t stream) const {
    fill_matrix(a, first_of_a, stream);
    return a.data();
  }
};

/// The guide's case: A has 32 columns.
void climb_narrow(Bench& bench, Gpu& gpu, Ladder& ladder) {
  const Square square(8192, 32, gpu.stream());
  const double operations = operations_of(square.p);
  const double useful = static_cast<double>(square.a.bytes() + square.c.bytes());
  // The Tflop/s at which the useful bytes move at the rate of a copy.
  ladder.begin({"32 columns"}, operations,
               bench.ceiling("device_copy") / 1e3 * operations / useful);
  std::string rates;
  for (const auto& kernel : kernels) {
    const Measured seconds =
        climb_product(ladder, kernel, square.p, square.c, square.check, gpu.stream());
    rates += formatted("{}{} {:.4g} GB/s", std::string(rates.empty() ? "" : ", "),
                       std::string(kernel.name), useful / seconds.value / 1e9);
  }
  bench.note("32 columns, useful bytes (A and C once each): " + rates + ".");
}

/// A square A, and cuBLASLt's product, which computes all of C.
void climb_square(Gpu& gpu, Ladder& ladder, unsigned n) {
  const Square square(n, n, gpu.stream());
  const Product<float>& p = square.p;
  const LibraryProduct library(gemm::Precision::fp32, p, BGiven::transposed, gpu.stream());
  const auto enqueue = [&] { library.enqueue(p, gpu.stream()); };
  const double operations = operations_of(p);
  const double rate = gpu.time(enqueue).rate(operations / 1e3).value;
  ladder.begin({formatted("n = {}", n)}, operations, rate);
  for (const auto& kernel : kernels) {
    climb_product(ladder, kernel, p, square.c, square.check, gpu.stream());
  }
  ladder.begin({formatted("n = {}", n)}, operations, rate);
  const Work work{operations, static_cast<double>(square.a.bytes() + square.c.bytes()), "fp32"};
  ladder.climb({"cuBLASLt", {}, library.choice(), work}, enqueue,
               [&] { return square.check.is_right(square.c); });
}

}  // namespace

std::span<const ProductKernel<float>> gram_kernels() {
  return kernels;
}

Table gram(Bench& bench) {
  need_memory(bench);
  Gpu gpu(bench);
  Ladder ladder(bench, gpu, {{"case", ColumnType::text}}, {"rate", ColumnType::real, "Tflop/s"},
                1e12);
  climb_narrow(bench, gpu, ladder);
  climb_square(gpu, ladder, bench.is_quick() ? 2048 : 4096);
  bench.note(words_on_factors);
  bench.note(words_on_resources);
  return std::move(ladder).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::ladders
