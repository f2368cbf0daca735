// The launchers of the .cu files. They enqueue kernels and do not wait.
#pragma once

#include "kernels/gemm/check.hpp"
#include "kernels/gemm/multiply/factor.hpp"
#include "kernels/gemm/multiply/multiply.hpp"
#include "kernels/gemm/narrow.hpp"
#include "kernels/gemm/panel/pairwise.hpp"
#include "kernels/gemm/panel/panel.hpp"
#include "kernels/gemm/panel/variables.hpp"
#include "kernels/gemm/residues/residues.hpp"

namespace shardstream::gemm::cuda {

void canonicalize(const CanonicalizeArgs& args, CudaStream stream);
void pad(const PadArgs& args, CudaStream stream);
void transpose(const TransposeArgs& args, CudaStream stream);
void mirror(const MirrorArgs& args, CudaStream stream);
void zero(const ZeroArgs& args, CudaStream stream);
void add_word_checksums(const WordChecksumArgs& args, CudaStream stream);
void finish(const FinishArgs& args, CudaStream stream);

void split(const SplitArgs& args, CudaStream stream);
void add(const AddArgs& args, CudaStream stream);

void residues(const ResiduesArgs& args, CudaStream stream);
void reconstruct(const ReconstructArgs& args, CudaStream stream);

void variable_sums(const VariableSumsArgs& args, CudaStream stream);
void settle(const SettleArgs& args, CudaStream stream);
void covariance(const CovarianceArgs& args, CudaStream stream);
void pairwise(const PairwiseArgs& args, CudaStream stream);

/// make_multiply_plan() for the current GPU of the calling thread.
std::unique_ptr<MultiplyPlan> make_multiply_plan(Precision precision, const Tile& tile);
/// Like it, for a precision that multiplies residues.
std::unique_ptr<MultiplyPlan> make_residue_plan(Precision precision, const Tile& tile);
void multiply(const MultiplyArgs& args, CudaStream stream);

void signed_sums(const SignedSumsArgs& args, CudaStream stream);
void add_products(const AddProductsArgs& args, CudaStream stream);
void narrow_sums(const NarrowSumsArgs& args, CudaStream stream);
void unfold(const UnfoldArgs& args, CudaStream stream);
void check_rows(const CheckTileArgs& args, CudaStream stream);
void verdict(const CheckTileArgs& args, CudaStream stream);

}  // namespace shardstream::gemm::cuda
