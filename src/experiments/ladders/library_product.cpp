#include "experiments/ladders/library_product.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "core/error.hpp"
#include "experiments/formatted.hpp"
#include "kernels/gemm/multiply/library_types.hpp"

namespace shardstream::experiments::ladders {
namespace {

/// What NVIDIA recommends for compute capability 9.0 and above.
constexpr std::uint64_t workspace_bytes = std::uint64_t{32} << 20;

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(std::string(call) + " failed (" + cublasLtGetStatusString(status) + ")");
}

cublasLtMatrixLayoutOpaque_t layout(cudaDataType_t type, std::uint64_t rows,
                                    std::uint64_t columns) {
  cublasLtMatrixLayoutOpaque_t made;
  check(cublasLtMatrixLayoutInit(&made, type, rows, columns, static_cast<std::int64_t>(rows)),
        "cublasLtMatrixLayoutInit");
  return made;
}

}  // namespace

/// The library's matrices are column-major, and a row-major matrix is a transposed one for it. So
/// it computes C^T = B^T A^T, and its first factor is B. If B is given as its transpose, that is
/// the matrix that the library has to transpose.
template <class T>
LibraryProduct::LibraryProduct(gemm::Precision precision, const Product<T>& p, BGiven b,
                               cudaStream_t stream)
    : workspace_(workspace_bytes) {
  const auto types = gemm::cuda::library_types(precision);
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "cublasLtCreate");
  handle_.reset(handle);
  check(cublasLtMatmulDescInit(&description_, types.compute, types.sum), "cublasLtMatmulDescInit");
  if (b == BGiven::transposed) {
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check(cublasLtMatmulDescSetAttribute(&description_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                         sizeof(transposed)),
          "cublasLtMatmulDescSetAttribute");
    b_ = layout(types.factor, p.k, p.n);
  } else {
    b_ = layout(types.factor, p.n, p.k);
  }
  a_ = layout(types.factor, p.k, p.m);
  c_ = layout(types.sum, p.n, p.m);
  double first = 0, fastest = std::numeric_limits<double>::infinity();
  const std::vector<cublasLtMatmulAlgo_t> all = proposals();
  cublasLtMatmulAlgo_t best = all.front();
  for (const cublasLtMatmulAlgo_t& each : all) {
    algorithm_ = each;
    const double seconds = seconds_of([&] { enqueue(p, stream); }, stream);
    if (first == 0) first = seconds;
    if (seconds < fastest) {
      fastest = seconds;
      best = each;
    }
  }
  algorithm_ = best;
  proposed_ = all.size();
  gain_ = first / fastest;
}
template LibraryProduct::LibraryProduct(gemm::Precision, const Product<float>&, BGiven,
                                        cudaStream_t);
template LibraryProduct::LibraryProduct(gemm::Precision, const Product<bf16>&, BGiven,
                                        cudaStream_t);

std::vector<cublasLtMatmulAlgo_t> LibraryProduct::proposals() const {
  constexpr int max_proposals = 8;
  cublasLtMatmulPreferenceOpaque_t preference;
  check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  check(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace_bytes, sizeof(workspace_bytes)),
        "cublasLtMatmulPreferenceSetAttribute");
  cublasLtMatmulHeuristicResult_t found[max_proposals]{};
  int count = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle_.get(), &description_, &b_, &a_, &c_, &c_,
                                       &preference, max_proposals, found, &count),
        "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> proposed;
  for (int i = 0; i < count; ++i) {
    if (found[i].state == CUBLAS_STATUS_SUCCESS) proposed.push_back(found[i].algo);
  }
  if (proposed.empty()) throw Error("cuBLASLt has no algorithm for this product");
  return proposed;
}

double LibraryProduct::seconds_of(const std::function<void()>& enqueue, cudaStream_t stream) {
  constexpr int samples = 3,
                calls = 3;  // the first call of a sample hides the launch of the others
  const device::cuda::EventHandle begin(true), end(true);
  enqueue();  // loads the kernel
  float shortest = std::numeric_limits<float>::infinity();
  for (int sample = 0; sample < samples; ++sample) {
    enqueue();
    device::cuda::check(cudaEventRecord(begin.get(), stream), "cudaEventRecord");
    for (int i = 0; i < calls; ++i) enqueue();
    device::cuda::check(cudaEventRecord(end.get(), stream), "cudaEventRecord");
    device::cuda::check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
    float milliseconds = 0;
    device::cuda::check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()),
                        "cudaEventElapsedTime");
    shortest = std::min(shortest, milliseconds);
  }
  return static_cast<double>(shortest) / 1e3 / calls;
}

std::string LibraryProduct::choice() const {
  return formatted(
      "the fastest of {} algorithms that the library proposes, {:.2f} times as fast as "
      "its first one",
      proposed_, gain_);
}

void LibraryProduct::enqueue(const void* a, const void* b, float* c, float alpha, float beta,
                             cudaStream_t stream) const {
  check(cublasLtMatmul(handle_.get(), &description_, &alpha, b, &b_, a, &a_, &beta, c, &c_, c, &c_,
                       &algorithm_, workspace_.data(), workspace_.bytes(), stream),
        "cublasLtMatmul");
}

}  // namespace shardstream::experiments::ladders
