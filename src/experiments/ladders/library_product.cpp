#include "experiments/ladders/library_product.hpp"

#include <cstdint>
#include <string>

#include "core/error.hpp"
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
LibraryProduct::LibraryProduct(gemm::Precision precision, const Product<T>& p, BGiven b)
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
  cublasLtMatmulPreferenceOpaque_t preference;
  check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  check(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace_bytes, sizeof(workspace_bytes)),
        "cublasLtMatmulPreferenceSetAttribute");
  cublasLtMatmulHeuristicResult_t proposed{};
  int count = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle_.get(), &description_, &b_, &a_, &c_, &c_,
                                       &preference, 1, &proposed, &count),
        "cublasLtMatmulAlgoGetHeuristic");
  if (count == 0) throw Error("cuBLASLt has no algorithm for this product");
  algorithm_ = proposed.algo;
}
template LibraryProduct::LibraryProduct(gemm::Precision, const Product<float>&, BGiven);
template LibraryProduct::LibraryProduct(gemm::Precision, const Product<bf16>&, BGiven);

void LibraryProduct::enqueue(const void* a, const void* b, float* c, float alpha, float beta,
                             cudaStream_t stream) const {
  check(cublasLtMatmul(handle_.get(), &description_, &alpha, b, &b_, a, &a_, &beta, c, &c_, c, &c_,
                       &algorithm_, workspace_.data(), workspace_.bytes(), stream),
        "cublasLtMatmul");
}

}  // namespace shardstream::experiments::ladders
