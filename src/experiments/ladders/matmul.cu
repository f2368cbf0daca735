// The product of matrices, from one output a thread to the rate of tensor cores. Each rung of the
// ladder changes one thing. Read the kernels in this order: matmul_cores.cu (CUDA cores),
// matmul_mma.cu (tensor cores), matmul_wgmma.cu (Hopper's bulk copies and warpgroups). This file
// has the data, the order of the rungs, and the yardstick, cuBLASLt.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/ladders/library_product.hpp"
#include "experiments/ladders/matmul.hpp"
#include "experiments/ladders/own_product.cuh"
#include "report/limiter.hpp"

namespace shardstream::experiments::ladders {

constexpr OptionRow options[] = {
    {"matmul.n", OptionKind::count, "8192", "256..32768",
     "The largest n, a multiple of 256; 1024, 8192, ... are measured below it. --quick measures "
     "only one n, by default 4096."},
    {"matmul.kernel", OptionKind::text, "", "",
     "A file with a kernel of your own, the last rung: FILE.cu or FILE.cu:FUNCTION."},
};

Table matmul(Bench& bench);

namespace {

/// The time in ms of a rung that the L1 cache or shared memory limits: they are one memory, so the
/// time is in proportion to the bytes that pass it. The first tiles of 16 x 16 tell its rate.
double time_of_on_chip_memory(const MeasuredRow& row) {
  constexpr std::array<std::string_view, 6> limited = {
      "plain",        "A in shared memory", "A and B in shared memory", "no shared memory",
      "16 x 16 tile", "32 x 32 tile"};
  if (std::ranges::find(limited, row.text("rung")) == limited.end()) return std::nan("");
  const auto of_tile = [&](std::string_view column) {
    return row.of_row(column, {{"rung", "16 x 16 tile"}});
  };
  const double bytes = of_tile("bytes") + of_tile("shared_bytes");
  return of_tile("time") * (row["bytes"] + row["shared_bytes"]) / bytes;
}

}  // namespace

extern const Experiment about_matmul = {
    .name = "matmul",
    .group = "ladders",
    .summary = "The product of matrices, from one output a thread to the rate of tensor cores.",
    .explanation =
        {
            .question =
                "Which steps lead from one output a thread to the rate of the tensor cores?",
            .varies =
                "Each rung changes one thing, so that an element is used more often once it is "
                "loaded, or so that copies run beside the computation. The remark has the "
                "arithmetic intensity: the operations per byte that blocks load and store. The "
                "table names the file and line of each kernel (in src/experiments/ladders), the "
                "`registers` of a thread, the `shared` memory of a block, the theoretical "
                "`occupancy`, and in `wave_occupancy` its mean over the waves of the grid, "
                "calculated as if all blocks took equally long. First "
                "comes the guide's case, C = A B with inner dimension 32: threads without shared "
                "memory, A's tile in shared memory, and B's, too. C takes most of the bytes, so "
                "the share is of the rate of a copy. Then C = alpha A B + beta C for n x n "
                "matrices: tiles of 16 x 16 and 32 x 32, 8 x 8 outputs in the registers of a "
                "thread, loads of 16 bytes, and copies of the next tiles during the computation. "
                "The column type shows where a rung also changes the elements: tensor cores "
                "multiply floats that are cut to tf32, then bf16, and add floats. On compute "
                "capability 9.0 follow bulk copies (TMA) with wgmma, a wider tile, specialised "
                "warps, blocks that stay on their multiprocessor, an order of tiles for the L2 "
                "cache, and clusters of two blocks, each of which copies half of a tile of B to "
                "the shared memory of both (`multicast`).",
            .expectation =
                "Expect caches and shared memory to limit the first rungs, which use an element up "
                "to 32 times, and arithmetic the ones that use it 128 times. The L1 cache and "
                "shared memory are one memory, so the time of the first rungs is in proportion to "
                "the bytes that pass it: 8 for each multiply-add, or fewer if one instruction "
                "loads several words. The first row with tiles of 16 x 16 tells the rate of this "
                "memory. Expect `order of tiles` to reach at least 0.7 of cuBLASLt at n = 8192. "
                "`multicast` reads a tile of B once for two blocks, but couples them, since a "
                "stage is free only when both have used it: expect a loss unless L2 limits the "
                "rung before. Small matrices have too few tiles to fill all multiprocessors.",
            .pitfalls =
                "A GPU becomes warm and slow. cuBLASLt is measured before the rungs of its type, "
                "for the share, and again after all rungs, for its row: its own share is below 1 "
                "if the GPU has become slow by then. The elements are multiples of 1/8, so that "
                "the check is exact; random numbers would need more power, and a GPU at its power "
                "limit would be slower with them.",
        },
    .read_on = {{Guide::best_practices, "Shared Memory in Matrix Multiplication (C=AB)"},
                {Guide::programming, "Shared Memory"},
                {Guide::programming, "Asynchronous Data Copies"},
                {Guide::ptx, "Asynchronous Warpgroup Level Matrix Instructions"},
                {Guide::programming, "Thread Block Clusters"},
                {Guide::ptx, "Data Movement and Conversion Instructions: cp.async.bulk.tensor"},
                {Guide::ptx, "Parallel Synchronization and Communication Instructions: mbarrier"}},
    .reference =
        "Tesla V100, inner dimension 32, useful bytes: plain 119.9 GB/s, A in shared memory 144.4 "
        "GB/s, A and B in shared memory 195.5 GB/s.",
    .share =
        "with inner dimension 32, of the rate of a copy in device memory; otherwise of cuBLASLt's "
        "product of the same type",
    .options = options,
    .expected = time_of_on_chip_memory,
    .exercise = {.task = "Predict the time in ms, for the smallest n, of `no shared memory`, "
                         "`32 x 32 tile` and `cuBLASLt fp32`, if a multiprocessor moves 128 bytes "
                         "per clock through its L1 cache and shared memory, and cuBLASLt comes "
                         "near the peak rate of fp32.",
                 .rows = {{{"rung", "no shared memory"}},
                          {{"rung", "32 x 32 tile"}},
                          {{"rung", "cuBLASLt fp32"}}}},
    .figure = {.look = Look::steps,
               .x = "rung",
               .y = "time",
               .panel = "case",
               .log_y = true,
               .more_is_better = false},
    .needs = {.ceilings = {"device_copy"}},
    .run = with_cuda<matmul>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

/// 90 for compute capability 9.0.
int capability(const Gpu& gpu) {
  return gpu.properties().major * 10 + gpu.properties().minor;
}

/// The guide's case: 8192 x 32 times 32 x 8192. Returns it for an own kernel.
OwnCase climb_narrow(Bench& bench, Gpu& gpu, Ladder& ladder) {
  constexpr unsigned edge = 8192, inner = 32;
  const DeviceArray<float> a(edge * inner), b(inner * edge), c(std::uint64_t{edge} * edge);
  fill_matrix(a, first_of_a, gpu.stream());
  fill_matrix(b, first_of_b, gpu.stream());
  const Product<float> p{a.data(), b.data(), c.data(), edge, edge, inner};
  const ProductCheck check(p, BGiven::plainly, gpu.stream());
  const double useful = useful_bytes_of(p), operations = operations_of(p);
  // The Tflop/s at which the useful bytes move at the rate of a copy.
  const double reference = bench.ceiling("device_copy") / 1e3 * operations / useful;
  ladder.begin({"inner dimension 32", "fp32"}, operations, reference);
  std::string rates;
  for (const auto& kernel : narrow_kernels()) {
    const Measured seconds = climb_product(ladder, kernel, p, c, check, gpu.stream());
    rates += formatted("{}{} {:.4g} GB/s", std::string(rates.empty() ? "" : ", "),
                       std::string(kernel.name), useful / seconds.value / 1e9);
  }
  bench.note("Inner dimension 32, useful bytes (A, B and C once each): " + rates + ".");
  return {ladder.mark(), p.m, p.n, p.k, p.alpha, p.beta};
}

/// The product of n x n matrices of one type, with cuBLASLt's rate for it.
template <class T>
class TypedProduct {
 public:
  /// `p.c` is the memory of `c`, which holds the numbers from first_of_c on.
  TypedProduct(Ladder& ladder, Gpu& gpu, gemm::Precision precision, const Product<T>& p,
               const DeviceArray<float>& c)
      : ladder_(ladder),
        gpu_(gpu),
        type_(gemm::word_of(precision)),
        p_(p),
        c_(c),
        check_(p, BGiven::plainly, gpu.stream()),
        library_(precision, p, BGiven::plainly, gpu.stream()),
        library_rate_(gpu.time([&] { library_.enqueue(p_, gpu_.stream()); })
                          .rate(operations_of(p) / 1e3)
                          .value) {}

  std::vector<Cell> varied() const { return {formatted("n = {}", p_.n), type_}; }
  double rate_of_library() const { return library_rate_; }

  void climb(std::span<const ProductKernel<T>> kernels) {
    for (const auto& kernel : kernels) {
      climb_product(ladder_, kernel, p_, c_, check_, gpu_.stream());
    }
  }

  /// The last row of the type. cuBLASLt's loads are not known: its bytes are those of the matrices.
  void climb_library() {
    ladder_.begin(varied(), operations_of(p_), library_rate_);
    fill_matrix(c_, first_of_c, gpu_.stream());
    ladder_.climb(
        {"cuBLASLt " + type_,
         {},
         library_.choice(),
         {operations_of(p_), useful_bytes_of(p_), report::arithmetic_of(type_)}},
        [&] { library_.enqueue(p_, gpu_.stream()); }, [&] { return check_.is_right(c_); });
  }

 private:
  Ladder& ladder_;
  Gpu& gpu_;
  std::string type_;
  Product<T> p_;
  const DeviceArray<float>& c_;
  ProductCheck check_;
  LibraryProduct library_;
  double library_rate_;  ///< Tflop/s
};

/// The rungs on tensor cores, for n x n matrices. `p.c` is the memory of `c`.
void climb_on_tensor_cores(Gpu& gpu, Ladder& ladder, const Product<float>& p,
                           const DeviceArray<float>& c) {
  const cudaStream_t stream = gpu.stream();
  fill_matrix(c, first_of_c, stream);
  TypedProduct tf32(ladder, gpu, gemm::Precision::tf32, p, c);
  ladder.continue_with(tf32.varied(), tf32.rate_of_library());
  tf32.climb(mma_kernels_for_floats());

  const DeviceArray<bf16> a(std::uint64_t{p.m} * p.k), b(std::uint64_t{p.k} * p.n);
  fill_matrix(a, first_of_a, stream);
  fill_matrix(b, first_of_b, stream);
  fill_matrix(c, first_of_c, stream);
  const Product<bf16> of_bf16{a.data(), b.data(), c.data(), p.m, p.n, p.k, p.alpha, p.beta};
  TypedProduct bf16s(ladder, gpu, gemm::Precision::bf16, of_bf16, c);
  ladder.continue_with(bf16s.varied(), bf16s.rate_of_library());
  bf16s.climb(mma_kernels());
  if (capability(gpu) == 90) bf16s.climb(wgmma_kernels());
  bf16s.climb_library();
  tf32.climb_library();
}

/// All rungs for n x n matrices. Returns the case for an own kernel, which is compared with the
/// last rung on CUDA cores.
OwnCase climb_square(Gpu& gpu, Ladder& ladder, unsigned n) {
  const std::uint64_t count = std::uint64_t{n} * n;
  const DeviceArray<float> a(count), b(count), c(count);
  fill_matrix(a, first_of_a, gpu.stream());
  fill_matrix(b, first_of_b, gpu.stream());
  fill_matrix(c, first_of_c, gpu.stream());
  const Product<float> p{a.data(), b.data(), c.data(), n, n, n, 1.5F, 0.5F};
  TypedProduct fp32(ladder, gpu, gemm::Precision::fp32, p, c);
  ladder.begin(fp32.varied(), operations_of(p), fp32.rate_of_library());
  fp32.climb(core_kernels());
  const OwnCase own{ladder.mark(), n, n, n, p.alpha, p.beta};
  if (capability(gpu) >= 80) climb_on_tensor_cores(gpu, ladder, p, c);
  fp32.climb_library();
  return own;
}

/// The sizes to measure. Throws UsageError if the largest one is no multiple of the tiles or does
/// not fit in memory.
std::vector<std::uint64_t> sizes(Bench& bench) {
  constexpr double bytes_of_element = 3 * sizeof(float) + 2 * sizeof(bf16);
  const double room = 0.8 * static_cast<double>(bench.memory()) - 1e8;  // cuBLASLt's workspaces
  const std::uint64_t n = bench.edge("matmul.n", 4096, matmul_granule, bytes_of_element, room);
  if (bench.is_quick()) return {n};
  return sizes_up_to(1024, n, 8);
}

}  // namespace

Table matmul(Bench& bench) {
  need_memory(bench);
  const std::vector<std::uint64_t> all = sizes(bench);
  Gpu gpu(bench);
  Ladder ladder(bench, gpu, {{"case", ColumnType::text}, {"type", ColumnType::text}},
                {"rate", ColumnType::real, "Tflop/s"}, 1e12);
  const std::optional<OwnKernel> own = own_kernel_of(bench, about_matmul.name, capability(gpu));
  std::vector<OwnCase> cases = {climb_narrow(bench, gpu, ladder)};
  for (const std::uint64_t n : all) {
    cases.push_back(climb_square(gpu, ladder, static_cast<unsigned>(n)));
  }
  bench.note(words_on_factors);
  bench.note(words_on_resources);
  if (capability(gpu) < 80) {
    bench.note("The rungs on tensor cores are not available: they need compute capability 8.0.");
  } else if (capability(gpu) != 90) {
    bench.note("The rungs with wgmma are not available: they need compute capability 9.0.");
  }
  if (own) {
    climb_own_kernel(ladder, *own, [&] {
      const OwnRung rung(*own, capability(gpu));
      for (const OwnCase& each : cases) climb_own_product(gpu, ladder, rung, each);
    });
  }
  return std::move(ladder).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::ladders
