// cuBLASLt's matrix products, the yardstick of the ladders `matmul` and `gram`.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cublasLt.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "experiments/gpu.hpp"
#include "experiments/ladders/products.hpp"
#include "kernels/gemm/precision.hpp"

namespace shardstream::experiments::ladders {

/// A call of cuBLASLt for products of one shape, with the fastest of the algorithms that the
/// library proposes.
class LibraryProduct {
 public:
  /// A call for the shape of `p`. The elements are floats for fp32 and tf32, and bf16. Loads the
  /// library, which takes time, and tries the algorithms with the matrices of `p` on `stream`,
  /// which overwrites C. Throws Error if the library rejects the product, and std::runtime_error if
  /// it cannot be loaded.
  template <class T>
  LibraryProduct(gemm::Precision precision, const Product<T>& p, BGiven b, cudaStream_t stream);

  /// How the algorithm was chosen, as the remark of a row.
  std::string choice() const;

  /// Enqueues a product of that shape. Throws Error if the library rejects it.
  template <class T>
  void enqueue(const Product<T>& p, cudaStream_t stream) const {
    enqueue(p.a, p.b, p.c, p.alpha, p.beta, stream);
  }

 private:
  /// The algorithms that the library proposes, its favourite first.
  std::vector<cublasLtMatmulAlgo_t> proposals() const;
  /// Seconds of `enqueue`, the shortest of a few.
  static double seconds_of(const std::function<void()>& enqueue, cudaStream_t stream);
  void enqueue(const void* a, const void* b, float* c, float alpha, float beta,
               cudaStream_t stream) const;

  struct Destroy {
    void operator()(cublasLtHandle_t handle) const { (void)cublasLtDestroy(handle); }
  };
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, Destroy> handle_;
  // cuBLASLt takes these by pointers that are not const.
  mutable cublasLtMatmulDescOpaque_t description_;
  mutable cublasLtMatrixLayoutOpaque_t a_, b_, c_;
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t proposed_ = 0;  ///< number of proposals
  double gain_ = 1;           ///< time with the first proposal over that with the fastest one
  DeviceArray<char> workspace_;
};

}  // namespace shardstream::experiments::ladders
#endif  // SHARDSTREAM_HAS_CUDA
