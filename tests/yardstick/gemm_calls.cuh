// For gemm_parts: single calls of cuBLASLt, and the errors of products in fp32 and fp32x3.
#pragma once

#include <cstdio>
#include <utility>

#include "kernels/gemm/multiply/factor.hpp"
#include "kernels/gemm/multiply/library_types.hpp"
#include "kernels/gemm/panel/panel.hpp"
#include "tests/yardstick/gemm_timer.cuh"

namespace shardstream::gemm {

/// Uniform random elements, piece by piece.
inline void fill_factor(const Timer& timer, Precision precision, std::uint64_t count,
                        std::uint64_t seed, std::byte* factor) {
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
inline double measure_in_core(const Timer& timer, Precision precision, std::uint64_t n,
                              const void* a, const void* b, void* c, double min = 300) {
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
inline void measure_large_in_core(const Timer& timer, Precision precision, std::uint64_t n) {
  const std::size_t element = panel_element_bytes(precision, Backend::cuda);
  const auto a = on_device(n * n * element), b = on_device(n * n * element);
  const auto c = on_device(n * n * accumulator_bytes(precision));
  fill_factor(timer, precision, n * n, 1, a.get());
  fill_factor(timer, precision, n * n, 2, b.get());
  const double ms = measure_in_core(timer, precision, n, a.get(), b.get(), c.get(), 5000);
  std::printf("%s, n = %llu, in core: %.1f ms, %.1f Tflop/s\n",
              std::string(word_of(precision)).c_str(), static_cast<unsigned long long>(n), ms,
              teraflops(n, n, n, ms));
  std::fflush(stdout);
}

/// sums[0] += the squares of c - right, sums[1] += those of right.
static __global__ void sum_errors(const float* c, const double* right, std::uint64_t count,
                                  double* sums) {
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
      timer_.launch(split_kernel(), {a_.get() + k, Side::a, edge, depth, k_, a.get()});
      timer_.launch(split_kernel(), {b_.get() + k * edge, Side::b, depth, edge, edge, b.get()});
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

}  // namespace shardstream::gemm
