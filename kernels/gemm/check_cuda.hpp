// The launchers of check.cu: each enqueues its kernels and does not wait.
#pragma once

#include "kernels/gemm/check.hpp"

namespace shardstream::gemm::cuda {

void signed_sums(const SignedSumsArgs& args, CudaStream stream);
void add_products(const AddProductsArgs& args, CudaStream stream);
void check_rows(const CheckTileArgs& args, CudaStream stream);
void verdict(const CheckTileArgs& args, CudaStream stream);

}  // namespace shardstream::gemm::cuda
