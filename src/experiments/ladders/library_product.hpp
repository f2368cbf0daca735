// cuBLASLt's matrix products, the yardstick of the ladders `matmul` and `gram`.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cublasLt.h>

#include <memory>
#include <type_traits>

#include "experiments/gpu.hpp"
#include "experiments/ladders/products.hpp"
#include "kernels/gemm/precision.hpp"

namespace shardstream::experiments::ladders {

/// A call of cuBLASLt for products of one shape, with the algorithm that the library proposes
/// first.
class LibraryProduct {
 public:
  /// A call for the shape of `p`. The elements are floats for fp32 and tf32, and bf16. Loads the
  /// library, which takes time. Throws Error if the library rejects the product, and
  /// std::runtime_error if it cannot be loaded.
  template <class T>
  LibraryProduct(gemm::Precision precision, const Product<T>& p, BGiven b);

  /// Enqueues a product of that shape. Throws Error if the library rejects it.
  template <class T>
  void enqueue(const Product<T>& p, cudaStream_t stream) const {
    enqueue(p.a, p.b, p.c, p.alpha, p.beta, stream);
  }

 private:
  void enqueue(const void* a, const void* b, float* c, float alpha, float beta,
               cudaStream_t stream) const;

  struct Destroy {
    void operator()(cublasLtHandle_t handle) const { (void)cublasLtDestroy(handle); }
  };
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, Destroy> handle_;
  // cuBLASLt takes these by pointers that are not const.
  mutable cublasLtMatmulDescOpaque_t description_;
  mutable cublasLtMatrixLayoutOpaque_t a_, b_, c_;
  cublasLtMatmulAlgo_t algorithm_;
  DeviceArray<char> workspace_;
};

}  // namespace shardstream::experiments::ladders
#endif  // SHARDSTREAM_HAS_CUDA
