#include <cublasLt.h>

#include <array>
#include <stdexcept>

#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/multiply/residue_plan.hpp"
#include "kernels/gemm/multiply/workspace.hpp"

namespace shardstream::gemm::cuda {
namespace {

/// One call of the library multiplies the residues of a strip of rows with all moduli, and one
/// kernel makes the strip of C from these products.
class GpuResiduePlan final : public MultiplyPlan {
 public:
  GpuResiduePlan(Precision precision, const Tile& tile)
      : precision_(precision),
        tile_(tile),
        strip_rows_(residue_rows(tile)),
        strip_(make_multiply_plan(
            Precision::int8, {.m = strip_rows_, .n = tile.n, .k = tile.k, .moduli = tile.moduli})) {
    if (tile.has_lanes()) throw std::logic_error("products of residues have no lanes");
    for (auto& each : products_) {
      each = allocate(tile.moduli * strip_rows_ * tile.n * sizeof(std::int32_t),
                      "products of residues");
    }
  }

  const std::string& algorithm() const override { return algorithm_; }

  void multiply(const MultiplyArgs&, unsigned, unsigned) const override {
    throw std::logic_error("a plan for a GPU was used on a host");
  }

  void enqueue(const MultiplyArgs& args, CudaStream stream) const override {
    for (std::uint64_t t = 0; t < args.count; ++t) {
      for (std::uint64_t row = 0; row < tile_.m; row += strip_rows_) {
        multiply_strip(args, t, row, stream);
      }
    }
  }

 private:
  void multiply_strip(const MultiplyArgs& args, std::uint64_t t, std::uint64_t first_row,
                      CudaStream stream) const {
    static constexpr TileAt origin{0, 0};
    auto* const products = static_cast<std::int32_t*>(products_.at(args.workspace).get());
    const ResidueStrip strip =
        strip_of(args, precision_, tile_, Backend::cuda, t, first_row, strip_rows_, products);
    strip_->enqueue({.plan = strip_.get(),
                     .k = args.k,
                     .a = nullptr,
                     .b = nullptr,
                     .ldb = args.k,
                     .tiles = products,
                     .at = &origin,
                     .count = 1,
                     .first = true,
                     .workspace = args.workspace,
                     .residues = {strip.a, strip.b}},
                    stream);
    reconstruct(strip.reconstruct, stream);
  }

  /// Any algorithm gives the same bits, so that it is not named: a run resumes with another one.
  const std::string algorithm_ =
      "products of residues, cuBLASLt " + std::to_string(cublasLtGetVersion());
  Precision precision_;
  Tile tile_;
  std::uint64_t strip_rows_;
  std::unique_ptr<MultiplyPlan> strip_;
  std::array<DeviceMemory, multiply_streams(Backend::cuda)> products_;
};

}  // namespace

std::unique_ptr<MultiplyPlan> make_residue_plan(Precision precision, const Tile& tile) {
  return std::make_unique<GpuResiduePlan>(precision, tile);
}

}  // namespace shardstream::gemm::cuda
