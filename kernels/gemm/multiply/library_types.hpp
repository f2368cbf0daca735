// cuBLASLt's types for the products of each precision.
#pragma once

#include <cublasLt.h>

#include <stdexcept>

#include "kernels/gemm/precision.hpp"

namespace shardstream::gemm::cuda {

struct LibraryTypes {
  cudaDataType_t factor, sum;
  cublasComputeType_t compute;
};

inline LibraryTypes library_types(Precision precision) {
  switch (traits_of(factors_of(precision)).panel) {
    case Format::f64:
      return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case Format::f32:
      return {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case Format::tf32:
      return {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
    case Format::bf16:
      return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case Format::fp16:
      return {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case Format::i8:
      return {CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I};
  }
  throw std::logic_error("format out of range");
}

}  // namespace shardstream::gemm::cuda
