// What the parts of a matrix product cost on one GPU, with uniform random data in [0, 1): one call
// of cuBLASLt for n x n x n; the program's own products of a batch, one K block of a super-tile of
// n x n; and each of its other kernels, as a share of these products' time. For fp32x3 also the
// products of other depths, and their errors. `incore N` measures calls for N x N x N alone, for
// five seconds, so that a GPU gets to its power limit. `xt N` multiplies N x N matrices in pinned
// memory with cuBLASXt alone, on all visible GPUs, in fp64 and fp32.
//
//   gemm_parts [fp64] [fp32] [tf32] [bf16] [fp16] [int8] [fp32x3] [n=16384] [incore N] [xt N]
#include <cublasLt.h>
#include <cublasXt.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/gemm/check.hpp"
#include "kernels/gemm/multiply/factor.hpp"
#include "kernels/gemm/multiply/library_types.hpp"
#include "kernels/gemm/multiply/multiply.hpp"
#include "kernels/gemm/panel/panel.hpp"

namespace shardstream::gemm {
namespace {

constexpr TileAt only_tile{0, 0};

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string(call).append(": ").append(cudaGetErrorString(status)));
}
void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(call).append(": ").append(cublasLtGetStatusString(status)));
}
#define CHECK(call) check(call, #call)

struct FreeDevice {
  void operator()(void* data) const { (void)cudaFree(data); }
};
template <class T>
using OnDevice = std::unique_ptr<T, FreeDevice>;
template <class T = std::byte>
OnDevice<T> on_device(std::uint64_t count) {
  void* data = nullptr;
  CHECK(cudaMalloc(&data, count * sizeof(T)));
  return OnDevice<T>(static_cast<T*>(data));
}

struct FreePinned {
  void operator()(void* data) const { (void)cudaFreeHost(data); }
};
template <class T>
using Pinned = std::unique_ptr<T, FreePinned>;
template <class T>
Pinned<T> pinned(std::uint64_t count) {
  void* data = nullptr;
  CHECK(cudaHostAlloc(&data, count * sizeof(T), cudaHostAllocPortable));
  return Pinned<T>(static_cast<T*>(data));
}

template <class T>
__global__ void fill_elements(T* x, std::uint64_t count, std::uint64_t seed) {
  for (std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::uint64_t{gridDim.x} * blockDim.x) {
    const std::uint64_t h = mix(stream_of(seed) + i * 0x9e3779b97f4a7c15u);
    if constexpr (sizeof(T) == 8) {
      x[i] = static_cast<double>(h >> 11) * 0x1p-53;
    } else if constexpr (sizeof(T) == 4) {
      x[i] = static_cast<float>(h >> 40) * 0x1p-24f;
    } else {
      x[i] = static_cast<std::int8_t>(h >> 56);
    }
  }
}
/// Of pinned memory too.
template <class T>
void fill(T* x, std::uint64_t count, std::uint64_t seed) {
  fill_elements<<<2048, 256>>>(x, count, seed);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double teraflops(std::uint64_t m, std::uint64_t n, std::uint64_t k, double ms) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / ms / 1e9;
}

class Timer {
 public:
  Timer() {
    CHECK(cudaStreamCreate(&stream_));
    CHECK(cudaEventCreate(&start_));
    CHECK(cudaEventCreate(&end_));
  }
  ~Timer() {
    (void)cudaEventDestroy(end_);
    (void)cudaEventDestroy(start_);
    (void)cudaStreamDestroy(stream_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  cudaStream_t stream() const { return stream_; }

  template <class Args>
  void launch(const Kernel<Args>& kernel, const std::type_identity_t<Args>& args) const {
    kernel.cuda(args, stream_);
    check(cudaGetLastError(), kernel.name);
  }

  /// Median milliseconds, by events, of at least three runs that take at least `min` of them,
  /// after as long a time of warming up. What is short is done several times a run.
  double milliseconds(const std::function<void()>& work, double min = 300) const {
    run(work, 1);  // loads the code
    const double once = run(work, 1);
    const int repeats = static_cast<int>(std::clamp(std::ceil(5 / once), 1.0, 1000.0));
    const auto runs = static_cast<std::size_t>(std::max(3.0, std::ceil(min / (once * repeats))));
    std::vector<double> times;
    double total = 0;
    for (double warm = once; warm < min;) warm += run(work, repeats) * repeats;
    while (times.size() < runs || total < min) {
      times.push_back(run(work, repeats));
      total += times.back() * repeats;
    }
    return median(times);
  }

 private:
  double run(const std::function<void()>& work, int repeats) const {
    CHECK(cudaEventRecord(start_, stream_));
    for (int i = 0; i < repeats; ++i) work();
    CHECK(cudaEventRecord(end_, stream_));
    CHECK(cudaEventSynchronize(end_));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, start_, end_));
    return ms / repeats;
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, end_ = nullptr;
};

/// Uniform random elements, piece by piece.
void fill_factor(const Timer& timer, Precision precision, std::uint64_t count, std::uint64_t seed,
                 std::byte* factor) {
  const std::uint64_t max = std::min(count, std::uint64_t{1} << 26);
  const bool doubles = takes(precision, ElementType::f64);
  const auto raw = on_device<double>(max);
  const std::size_t element = panel_element_bytes(precision, Backend::cuda);
  for (std::uint64_t first = 0; first < count; first += max) {
    const std::uint64_t some = std::min(max, count - first);
    if (doubles) {
      fill(raw.get(), some, seed + first);
    } else {
      fill(reinterpret_cast<std::int8_t*>(raw.get()), some, seed + first);
    }
    timer.launch(canonicalize_kernel(),
                 {raw.get(), doubles ? ElementType::f64 : ElementType::i8, false,
                  factor + first * element, factors_of(precision), 1, some, some});
    CHECK(cudaStreamSynchronize(timer.stream()));
  }
}

/// Milliseconds of n x n x n, with the library's first proposal, measured for at least `min`: one
/// call; three of tf32 for fp32x3.
double measure_in_core(const Timer& timer, Precision precision, std::uint64_t n, const void* a,
                       const void* b, void* c, double min = 300) {
  const cuda::LibraryTypes types = cuda::library_types(precision);
  cublasLtHandle_t handle = nullptr;
  CHECK(cublasLtCreate(&handle));
  cublasLtMatmulDescOpaque_t product;
  CHECK(cublasLtMatmulDescInit(&product, types.compute, types.sum));
  cublasLtMatrixLayoutOpaque_t factor, result;
  if (multiplies_transposed_b(precision, Backend::cuda)) {
    const cublasOperation_t turned = CUBLAS_OP_T;
    CHECK(cublasLtMatmulDescSetAttribute(&product, CUBLASLT_MATMUL_DESC_TRANSA, &turned,
                                         sizeof(turned)));
  }
  const auto ld = static_cast<std::int64_t>(n);
  CHECK(cublasLtMatrixLayoutInit(&factor, types.factor, n, n, ld));
  CHECK(cublasLtMatrixLayoutInit(&result, types.sum, n, n, ld));
  cublasLtMatmulPreferenceOpaque_t preference;
  CHECK(cublasLtMatmulPreferenceInit(&preference));
  const std::uint64_t max = max_workspace;
  CHECK(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &max, sizeof(max)));
  cublasLtMatmulHeuristicResult_t first{};
  int found = 0;
  CHECK(cublasLtMatmulAlgoGetHeuristic(handle, &product, &factor, &factor, &result, &result,
                                       &preference, 1, &first, &found));
  if (found == 0) throw std::runtime_error("cublasLtMatmulAlgoGetHeuristic found no algorithm");
  const auto workspace = on_device(std::max<std::size_t>(first.workspaceSize, 1));
  const double ms = with_accumulator_type(precision, [&](auto of) {
    const typename decltype(of)::type one = 1, zero = 0;
    const auto call = [&] {
      CHECK(cublasLtMatmul(handle, &product, &one, b, &factor, a, &factor, &zero, c, &result, c,
                           &result, &first.algo, workspace.get(), first.workspaceSize,
                           timer.stream()));
    };
    return timer.milliseconds(call, min);
  });
  CHECK(cublasLtDestroy(handle));
  return traits_of(precision).products * ms;
}

/// `incore N`
void measure_large_in_core(const Timer& timer, Precision precision, std::uint64_t n) {
  const std::size_t element = panel_element_bytes(precision, Backend::cuda);
  const auto a = on_device(n * n * element), b = on_device(n * n * element);
  const auto c = on_device(n * n * accumulator_bytes(precision));
  fill_factor(timer, precision, n * n, 1, a.get());
  fill_factor(timer, precision, n * n, 2, b.get());
  const double ms = measure_in_core(timer, precision, n, a.get(), b.get(), c.get(), 5000);
  std::printf("%s, n = %llu, in core: %.1f ms, %.1f Tflop/s\n",
              std::string(name_of(precision)).c_str(), static_cast<unsigned long long>(n), ms,
              teraflops(n, n, n, ms));
  std::fflush(stdout);
}

/// sums[0] += the squares of c - right, sums[1] += those of right.
__global__ void sum_errors(const float* c, const double* right, std::uint64_t count, double* sums) {
  double errors = 0, squares = 0;
  for (std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::uint64_t{gridDim.x} * blockDim.x) {
    const double error = c[i] - right[i];
    errors += error * error;
    squares += right[i] * right[i];
  }
  atomicAdd(sums, errors);
  atomicAdd(sums + 1, squares);
}

/// How far one tile of 4096 x 4096 x k is from its product in doubles, of uniform data, whose sums
/// drift: there cutting off shows most.
class Errors {
 public:
  Errors(const Timer& timer, std::uint64_t k)
      : timer_(timer),
        k_(k),
        a_(on_device<float>(edge * k)),
        b_(on_device<float>(edge * k)),
        c_(on_device<float>(edge * edge)),
        right_(on_device<double>(edge * edge)),
        sums_(on_device<double>(2)) {
    fill(a_.get(), edge * k, 5);
    fill(b_.get(), edge * k, 6);
    const auto a = on_device<double>(edge * k), b = on_device<double>(edge * k);
    for (const auto& [from, to] : {std::pair(a_.get(), a.get()), std::pair(b_.get(), b.get())}) {
      timer.launch(canonicalize_kernel(),
                   {from, ElementType::f32, false, to, Precision::fp64, 1, edge * k, edge * k});
    }
    const auto plan = make_multiply_plan(Precision::fp64, {edge, edge, k}, Backend::cuda);
    timer.launch(multiply_kernel(),
                 {plan.get(), k, a.get(), b.get(), edge, right_.get(), &only_tile, 1, true});
    CHECK(cudaStreamSynchronize(timer.stream()));
  }

  /// Root mean square of the errors, as a share of that of C.
  double of_fp32() const {
    const auto plan = make_multiply_plan(Precision::fp32, {edge, edge, k_}, Backend::cuda);
    const std::uint64_t ld = a_ld(Precision::fp32, k_, Backend::cuda);
    const auto a = on_device<float>(edge * ld);
    timer_.launch(canonicalize_kernel(),
                  {a_.get(), ElementType::f32, false, a.get(), Precision::fp32, edge, k_, ld});
    timer_.launch(multiply_kernel(),
                  {plan.get(), k_, a.get(), b_.get(), edge, c_.get(), &only_tile, 1, true});
    return relative();
  }
  double of_split(std::uint64_t depth) const {
    const auto plan = make_multiply_plan(Precision::fp32x3, {edge, edge, depth}, Backend::cuda);
    const auto a = on_device<float>(3 * edge * depth), b = on_device<float>(3 * edge * depth);
    for (std::uint64_t k = 0; k < k_; k += depth) {
      timer_.launch(split_kernel(), {a_.get() + k, false, edge, depth, k_, a.get()});
      timer_.launch(split_kernel(), {b_.get() + k * edge, true, depth, edge, edge, b.get()});
      timer_.launch(multiply_kernel(),
                    {plan.get(), depth, a.get(), b.get(), edge, c_.get(), &only_tile, 1, k == 0});
    }
    return relative();
  }

 private:
  static constexpr std::uint64_t edge = 4096;

  double relative() const {
    CHECK(cudaMemsetAsync(sums_.get(), 0, 2 * sizeof(double), timer_.stream()));
    sum_errors<<<1024, 256, 0, timer_.stream()>>>(c_.get(), right_.get(), edge * edge, sums_.get());
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(timer_.stream()));
    double sums[2] = {};
    CHECK(cudaMemcpy(sums, sums_.get(), sizeof(sums), cudaMemcpyDeviceToHost));
    return std::sqrt(sums[0] / sums[1]);
  }

  const Timer& timer_;
  std::uint64_t k_;
  OnDevice<float> a_, b_, c_;
  OnDevice<double> right_, sums_;
};

/// A second stream, whose work lies between two points of another one.
class Beside {
 public:
  Beside() {
    CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }
  ~Beside() {
    (void)cudaEventDestroy(event_);
    (void)cudaStreamDestroy(stream_);
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

  cudaStream_t stream() const { return stream_; }
  void begin(cudaStream_t first) const { order(first, stream_); }
  void end(cudaStream_t first) const { order(stream_, first); }

 private:
  void order(cudaStream_t before, cudaStream_t after) const {
    CHECK(cudaEventRecord(event_, before));
    CHECK(cudaStreamWaitEvent(after, event_, 0));
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

/// K blocks of a super-tile: what is done once a tile counts for a batch with this part.
constexpr unsigned blocks = 16;

/// One batch's memory: panels of n x tile.k and tile.k x n, and what becomes of them.
class Batch {
 public:
  static constexpr std::uint64_t split_depths[] = {512, 1024, 2048, 4096};

  Batch(const Timer& timer, Precision precision, std::uint64_t n)
      : timer_(timer),
        precision_(precision),
        n_(n),
        tile_(tile_for(65536, 65536, 65536, precision, Backend::cuda)) {
    if (n % tile_.m != 0 || n % tile_.n != 0) {
      throw std::runtime_error("n is " + std::to_string(n) + " (no multiple of a tile's " +
                               std::to_string(tile_.m) + "): give such a multiple");
    }
    // In core the factors are n x n; and both panels are made from `raw_`.
    const std::uint64_t deepest = splits(precision) ? 3 * split_depths[3] : 2 * tile_.k;
    const std::uint64_t factor = std::max(n, deepest) * n;
    raw_ = on_device(factor * sizeof(double));
    a_ = on_device(factor * panel_element_bytes(precision, Backend::cuda));
    b_ = on_device(factor * panel_element_bytes(precision, Backend::cuda));
    c_ = on_device(n * n * accumulator_bytes(precision));
    CHECK(cudaMemset(c_.get(), 0, n * n * accumulator_bytes(precision)));
    fill_factor(timer, precision, factor, 1, a_.get());
    fill_factor(timer, precision, factor, 2, b_.get());
    across_ = n / tile_.n;
    tiles_ = n / tile_.m * across_;
    y_ = on_device<double>(tile_.k * 2 * across_);
    z_ = on_device<double>(n * across_);
    row_squares_ = on_device<double>(n);
    column_squares_ = on_device<double>(across_);
    row_verdicts_ = on_device<RowVerdict>(tile_.m);
    verdicts_ = on_device<TileVerdict>(tiles_);
    sum_ = on_device<std::uint64_t>(1);
  }

  void measure() {
    const double in_core = measure_in_core(timer_, precision_, n_, a_.get(), b_.get(), c_.get());
    const std::string name(name_of(precision_));
    std::printf("%s, n = %llu, batches of %llu tiles of %llu x %llu x %llu\n", name.c_str(),
                ull(n_), ull(tiles_), ull(tile_.m), ull(tile_.n), ull(tile_.k));
    const double in_core_rate = teraflops(n_, n_, n_, in_core);
    std::printf("  %-40s %9.4f ms, %6.1f Tflop/s\n", "in core", in_core, in_core_rate);
    multiply_ms_ = measure_products(tile_, in_core_rate);
    if (splits(precision_)) measure_depths(in_core_rate);
    for (const ElementType from : {ElementType::f32, ElementType::f64, ElementType::i8}) {
      const bool usual = (precision_ == Precision::int8) == (from == ElementType::i8);
      if (usual) measure_panels(from);
    }
    if (splits(precision_)) measure_split();
    measure_check_of_batch();
    measure_tiles();
  }

 private:
  static unsigned long long ull(std::uint64_t value) { return value; }

  /// Milliseconds.
  double measure_products(const Tile& tile, double in_core_rate) {
    const auto plan = make_multiply_plan(precision_, tile, Backend::cuda);
    const std::uint64_t ldb = multiplies_transposed_b(precision_, Backend::cuda) ? tile.k : n_;
    const std::vector<TileAt> all = all_tiles(n_ / tile.m, across_);
    const Beside beside;
    const std::size_t pitch = tile.m * tile.n * accumulator_bytes(precision_);
    const double ms = timer_.milliseconds([&] {
      beside.begin(timer_.stream());
      for (std::size_t i = 0; i < all.size(); ++i) {
        const unsigned turn = i % multiply_streams(Backend::cuda);
        multiply_kernel().cuda({.plan = plan.get(),
                                .k = tile.k,
                                .a = a_.get(),
                                .b = b_.get(),
                                .ldb = ldb,
                                .tiles = c_.get() + i * pitch,
                                .at = &all[i],
                                .count = 1,
                                .first = false,
                                .workspace = turn},
                               turn == 0 ? timer_.stream() : beside.stream());
      }
      beside.end(timer_.stream());
    });
    const double rate = teraflops(n_, n_, tile.k, ms);
    const std::string what = "multiply, k = " + std::to_string(tile.k);
    std::printf("  %-40s %9.4f ms, %6.1f Tflop/s, %.3f of in core (%s)\n", what.c_str(), ms, rate,
                rate / in_core_rate, plan->algorithm().c_str());
    return ms;
  }

  /// What fp32x3's K blocks could be.
  void measure_depths(double in_core_rate) {
    const Errors errors(timer_, n_);
    std::printf("  %-40s %9.2e of rms(C)\n", "error of fp32 in one call", errors.of_fp32());
    for (const std::uint64_t depth : split_depths) {
      measure_products({tile_.m, tile_.n, depth}, in_core_rate);
      if (n_ % depth == 0) {
        std::printf("  %-40s %9.2e of rms(C)\n", "  its error", errors.of_split(depth));
      }
    }
  }

  void measure_split() {
    fill(reinterpret_cast<float*>(raw_.get()), n_ * tile_.k, 3);
    print("split both panels", timer_.milliseconds([&] {
      timer_.launch(split_kernel(), {raw_.get(), false, n_, tile_.k, tile_.k, a_.get()});
      timer_.launch(split_kernel(), {raw_.get(), true, tile_.k, n_, n_, b_.get()});
    }));
  }

  void print(const std::string& what, double ms, double times_a_batch = 1) const {
    std::printf("  %-40s %9.4f ms, %.4f of multiply\n", what.c_str(), ms,
                ms * times_a_batch / multiply_ms_);
  }

  /// What is done to both panels as they come, stored in elements of `from`.
  void measure_panels(ElementType from) {
    const std::uint64_t count = n_ * tile_.k;
    const std::size_t bytes = count * size_of(from);
    std::byte *const a = raw_.get(), *const b = a + bytes;
    with_element_type(from, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float> ||
                    std::is_same_v<T, std::int8_t>) {
        fill(reinterpret_cast<T*>(a), 2 * count, 3);
      } else {
        throw std::logic_error("no panels of this type are measured");
      }
    });
    const std::string stored(name_of(from));
    print("word_sum of both panels, " + stored, timer_.milliseconds([&] {
      timer_.launch(word_checksum_kernel(), {a, bytes, sum_.get()});
      timer_.launch(word_checksum_kernel(), {b, bytes, sum_.get()});
    }));
    for (const bool transpose : {false, true}) {
      const std::string how = ", " + stored + (transpose ? ", transposed" : "");
      const PanelWork work = panel_work(from, precision_, Backend::cuda, transpose, false);
      if (work == PanelWork::none) {
        std::printf("  %-40s nothing to do\n", ("panels" + how).c_str());
        continue;
      }
      if (work == PanelWork::transpose) {
        const auto element = static_cast<unsigned>(panel_element_bytes(precision_, Backend::cuda));
        print("transpose both" + how, timer_.milliseconds([&] {
          timer_.launch(transpose_kernel(), {a, tile_.k, n_, n_, a_.get(),
                                             a_ld(precision_, tile_.k, Backend::cuda), element});
          timer_.launch(transpose_kernel(), {b, n_, tile_.k, tile_.k, b_.get(), n_, element});
        }));
        continue;
      }
      print("canonicalize both" + how, timer_.milliseconds([&] {
        timer_.launch(canonicalize_kernel(), {a, from, transpose, a_.get(), precision_, n_, tile_.k,
                                              a_ld(precision_, tile_.k, Backend::cuda)});
        timer_.launch(canonicalize_kernel(),
                      {b, from, transpose, b_.get(), precision_, tile_.k, n_, n_});
      }));
    }
  }

  void measure_check_of_batch() {
    print("signed_sums", timer_.milliseconds([&] {
      timer_.launch(signed_sums_kernel(),
                    {b_.get(), precision_, tile_.k, n_, tile_.n, across_, 1, 0, y_.get()});
    }));
    print("add_products", timer_.milliseconds([&] {
      timer_.launch(
          add_products_kernel(),
          {a_.get(), precision_, n_, tile_.k, a_ld(precision_, tile_.k, Backend::cuda), y_.get(),
           across_, z_.get(), row_squares_.get(), column_squares_.get(), false});
    }));
  }

  /// All tiles, one after another, so that none is in a cache. That C has grown since, and is no
  /// product that Z belongs to, costs the check nothing.
  void measure_tiles() {
    const std::size_t bytes = tile_.m * tile_.n * accumulator_bytes(precision_);
    const double check_ms = timer_.milliseconds([&] {
      for (std::uint64_t i = 0; i < tiles_; ++i) {
        const std::uint64_t row = i / across_, column = i % across_;
        const CheckTileArgs args{.tile = c_.get() + i * bytes,
                                 .precision = precision_,
                                 .rows = tile_.m,
                                 .columns = tile_.n,
                                 .ld = tile_.n,
                                 .seed = 1,
                                 .first_column = column * tile_.n,
                                 .k = blocks * tile_.k,
                                 .z = z_.get() + row * tile_.m * across_ + column,
                                 .z_stride = across_,
                                 .row_squares = row_squares_.get() + row * tile_.m,
                                 .column_squares = column_squares_.get() + column,
                                 .row_verdicts = row_verdicts_.get(),
                                 .verdict = verdicts_.get() + i};
        timer_.launch(check_rows_kernel(), args);
        timer_.launch(verdict_kernel(), args);
      }
    });
    const auto tiles = static_cast<double>(tiles_);
    const std::string after = " of a tile, each after " + std::to_string(blocks);
    print("check" + after, check_ms / tiles, tiles / blocks);
    if (precision_ == Precision::int8) return;  // its tiles are C
    const double finish_ms = timer_.milliseconds([&] {
      for (std::uint64_t i = 0; i < tiles_; ++i) {
        std::byte* const tile = c_.get() + i * bytes;
        timer_.launch(finish_kernel(), {tile, precision_, tile_.m, tile_.n, tile_.n, 0.5, 0.5,
                                        raw_.get() + i * bytes, tile, tile_.n});
      }
    });
    print("finish" + after, finish_ms / tiles, tiles / blocks);
  }

  const Timer& timer_;
  Precision precision_;
  std::uint64_t n_;
  Tile tile_;
  std::uint64_t across_ = 0, tiles_ = 0;
  OnDevice<std::byte> raw_, a_, b_, c_;
  OnDevice<double> y_, z_, row_squares_, column_squares_;
  OnDevice<RowVerdict> row_verdicts_;
  OnDevice<TileVerdict> verdicts_;
  OnDevice<std::uint64_t> sum_;
  double multiply_ms_ = 0;
};

cublasStatus_t xt_gemm(cublasXtHandle_t handle, std::size_t n, const double* a, const double* b,
                       double* c) {
  const double one = 1, zero = 0;
  return cublasXtDgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n);
}
cublasStatus_t xt_gemm(cublasXtHandle_t handle, std::size_t n, const float* a, const float* b,
                       float* c) {
  const float one = 1, zero = 0;
  return cublasXtSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n);
}

/// Out of core, by the clock: the calls return when C is whole. For each of the blocks the median
/// of three or, where calls are short, more; what takes seconds is not repeated once three are
/// over.
template <class T>
void measure_xt(const char* name, std::uint64_t n) {
  int count = 0;
  CHECK(cudaGetDeviceCount(&count));
  std::vector<int> gpus(static_cast<std::size_t>(count));
  std::iota(gpus.begin(), gpus.end(), 0);
  const auto a = pinned<T>(n * n), b = pinned<T>(n * n), c = pinned<T>(n * n);
  fill(a.get(), n * n, 1);
  fill(b.get(), n * n, 2);
  for (const int block : {2048, 4096, 8192, 16384}) {
    cublasXtHandle_t handle = nullptr;
    CHECK(cublasXtCreate(&handle));
    CHECK(cublasXtDeviceSelect(handle, count, gpus.data()));
    CHECK(cublasXtSetBlockDim(handle, block));
    std::vector<double> times;
    double total = 0;
    while (total < 3000 && (times.size() < 3 || total < 300)) {
      const auto start = std::chrono::steady_clock::now();
      CHECK(xt_gemm(handle, n, a.get(), b.get(), c.get()));
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - start;
      times.push_back(took.count());
      total += times.back();
    }
    CHECK(cublasXtDestroy(handle));
    const double ms = median(times);
    std::printf("cuBLASXt, %s, n = %llu, %d GPUs, blocks of %d: %.1f ms, %.1f Tflop/s\n", name,
                static_cast<unsigned long long>(n), count, block, ms, teraflops(n, n, n, ms));
    std::fflush(stdout);
  }
}

std::uint64_t number(std::string_view word) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || value == 0) {
    throw std::runtime_error(
        std::string(word).append(" is neither a precision nor a size: gemm_parts [fp64] [fp32] "
                                 "[tf32] [bf16] [fp16] [int8] [fp32x3] [n=16384] [incore N] "
                                 "[xt N]"));
  }
  return value;
}

void run(const std::vector<std::string_view>& words) {
  std::vector<Precision> precisions;
  std::uint64_t n = 16384, in_core = 0, xt = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (const auto precision = precision_named(words[i])) {
      precisions.push_back(*precision);
    } else if (words[i] == "incore" && i + 1 < words.size()) {
      in_core = number(words[++i]);
    } else if (words[i] == "xt" && i + 1 < words.size()) {
      xt = number(words[++i]);
    } else {
      n = number(words[i]);
    }
  }
  if (precisions.empty()) precisions.assign(all_precisions.begin(), all_precisions.end());
  const auto asked = [&](Precision precision) {
    return std::ranges::find(precisions, precision) != precisions.end();
  };
  if (xt != 0 && !asked(Precision::fp64) && !asked(Precision::fp32)) {
    throw std::runtime_error("xt without fp64 or fp32 (cuBLASXt has no other): name one of them");
  }
  const Timer timer;
  for (const Precision precision : precisions) {
    if (in_core != 0) {
      measure_large_in_core(timer, precision, in_core);
    } else if (xt == 0) {
      Batch(timer, precision, n).measure();
    }
    std::fflush(stdout);
  }
  if (xt == 0) return;
  if (asked(Precision::fp64)) measure_xt<double>("fp64", xt);
  if (asked(Precision::fp32)) measure_xt<float>("fp32", xt);
}

}  // namespace
}  // namespace shardstream::gemm

int main(int argc, char** argv) {
  try {
    shardstream::gemm::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
