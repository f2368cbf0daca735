// The costs of the parts of a matrix product on one GPU, with uniform random data in [0, 1): one
// call of cuBLASLt for n x n x n; the program's own products of a batch, one K block of a
// super-tile of n x n; and each of its other kernels, as a share of these products' time. For
// fp32x3 also the products of other depths, and their errors. `incore N` measures calls for N x N x
// N alone, for five seconds, so that a GPU gets to its power limit. `xt N` multiplies N x N
// matrices in pinned memory with cuBLASXt alone, on all visible GPUs, in fp64 and fp32.
//
//   gemm_parts [fp64] [fp32] [tf32] [bf16] [fp16] [int8] [fp32x3] [n=16384] [incore N] [xt N]
#include <cublasXt.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <iterator>
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
#include "kernels/gemm/multiply/multiply.hpp"
#include "kernels/gemm/panel/panel.hpp"
#include "tests/yardstick/gemm_calls.cuh"
#include "tests/yardstick/gemm_timer.cuh"

namespace shardstream::gemm {
namespace {

/// A second stream, whose work lies between two points of another one.
class SecondStream {
 public:
  SecondStream() {
    CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }
  ~SecondStream() {
    (void)cudaEventDestroy(event_);
    (void)cudaStreamDestroy(stream_);
  }
  SecondStream(const SecondStream&) = delete;
  SecondStream& operator=(const SecondStream&) = delete;

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
    const std::string name(word_of(precision_));
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
    const SecondStream second;
    const std::size_t pitch = tile.m * tile.n * accumulator_bytes(precision_);
    const double ms = timer_.milliseconds([&] {
      second.begin(timer_.stream());
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
                               turn == 0 ? timer_.stream() : second.stream());
      }
      second.end(timer_.stream());
    });
    const double rate = teraflops(n_, n_, tile.k, ms);
    const std::string what = "multiply, k = " + std::to_string(tile.k);
    std::printf("  %-40s %9.4f ms, %6.1f Tflop/s, %.3f of in core (%s)\n", what.c_str(), ms, rate,
                rate / in_core_rate, plan->algorithm().c_str());
    return ms;
  }

  /// Measures fp32x3 with several depths of K blocks.
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
      timer_.launch(split_kernel(), {raw_.get(), Side::a, n_, tile_.k, tile_.k, a_.get()});
      timer_.launch(split_kernel(), {raw_.get(), Side::b, tile_.k, n_, n_, b_.get()});
    }));
  }

  void print(const std::string& what, double ms, double times_a_batch = 1) const {
    std::printf("  %-40s %9.4f ms, %.4f of multiply\n", what.c_str(), ms,
                ms * times_a_batch / multiply_ms_);
  }

  /// Measures the preparation of both uploaded panels, stored in elements of `from`.
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
    const std::string stored(word_of(from));
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
  if (std::ranges::any_of(precisions, multiplies_residues)) {
    throw std::runtime_error("gemm_parts measures no products of residues: use `bench precision`");
  }
  if (precisions.empty()) {
    std::ranges::copy_if(all_precisions, std::back_inserter(precisions),
                         [](Precision each) { return !multiplies_residues(each); });
  }
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
