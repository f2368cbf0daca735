// The launchers of panel.cu: each enqueues its kernels and does not wait.
#pragma once

#include "kernels/gemm/panel.hpp"

namespace shardstream::gemm::cuda {

void canonicalize(const CanonicalizeArgs& args, CudaStream stream);
void transpose(const TransposeArgs& args, CudaStream stream);
void mirror(const MirrorArgs& args, CudaStream stream);
void correlate(const CorrelateArgs& args, CudaStream stream);
void zero(const ZeroArgs& args, CudaStream stream);
void sum_words(const WordSumArgs& args, CudaStream stream);
void finish(const FinishArgs& args, CudaStream stream);

}  // namespace shardstream::gemm::cuda
