#include "experiments/instructions/emulated_product.hpp"

#include <cublasLt.h>

#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "experiments/instructions/matrix_products.hpp"

namespace shardstream::experiments::instructions {

#if CUBLAS_VERSION >= 130100
namespace {

void check_library(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(std::string(call) + " failed (" + cublasLtGetStatusString(status) + ")");
}

/// The library's matrices are column-major, and a row-major matrix is a transposed one for it. So
/// it computes C^T = B^T A^T: its first factor is B.
class FixedPointProduct final : public EmulatedProduct {
 public:
  FixedPointProduct(Gpu& gpu, std::uint64_t n) : gpu_(gpu), n_(n), a_(n * n), b_(n * n), c_(n * n) {
    cublasLtHandle_t handle = nullptr;
    check_library(cublasLtCreate(&handle), "cublasLtCreate");
    handle_.reset(handle);
    check_library(
        cublasLtMatmulDescInit(&product_, CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT, CUDA_R_64F),
        "cublasLtMatmulDescInit");
    check_library(
        cublasLtMatrixLayoutInit(&layout_, CUDA_R_64F, n, n, static_cast<std::int64_t>(n)),
        "cublasLtMatrixLayoutInit");
    fill(gemm::Side::a, a_);
    fill(gemm::Side::b, b_);
  }

  /// Why the library does not take the product; empty if it does.
  std::string prepare() {
    check_library(cublasLtEmulationDescInit(&emulation_), "cublasLtEmulationDescInit");
    // Also if the library expects no gain.
    set(CUBLASLT_EMULATION_DESC_STRATEGY, std::int32_t{CUBLAS_EMULATION_STRATEGY_EAGER});
    set(CUBLASLT_EMULATION_DESC_FIXEDPOINT_MANTISSA_BIT_COUNT_POINTER, bits_.data());
    cublasLtEmulationDesc_t emulation = &emulation_;
    check_library(
        cublasLtMatmulDescSetAttribute(&product_, CUBLASLT_MATMUL_DESC_EMULATION_DESCRIPTOR,
                                       &emulation, sizeof(emulation)),
        "cublasLtMatmulDescSetAttribute");
    const auto max_workspace = static_cast<std::size_t>(
        (MatrixProduct::bytes_of_element - 3 * sizeof(double)) * static_cast<double>(n_ * n_) +
        MatrixProduct::other_bytes / 2);
    cublasLtMatmulPreferenceOpaque_t preference;
    check_library(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
    check_library(
        cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &max_workspace, sizeof(max_workspace)),
        "cublasLtMatmulPreferenceSetAttribute");
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_.get(), &product_, &layout_, &layout_, &layout_,
                                       &layout_, &preference, 1, &found, &count);
    if (status == CUBLAS_STATUS_SUCCESS && count > 0) {
      algorithm_ = found.algo;
      workspace_ = std::make_unique<DeviceArray<std::byte>>(found.workspaceSize + 1);
      return status_text(multiply());
    }
    return status_text(status == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED : status);
  }

  void enqueue() override { check_library(multiply(), "cublasLtMatmul"); }
  double error() const override {
    return product_error<double>(n_, [&](std::uint64_t row, std::uint64_t column) {
      return c_.read(row * n_ + column, 1).front();
    });
  }
  int bits() const override { return bits_.read().front(); }

 private:
  void fill(gemm::Side side, const DeviceArray<double>& to) const {
    const std::vector<double> row = generated_doubles(side, n_);
    check(cudaMemcpy(to.data(), row.data(), to.bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  template <class T>
  void set(cublasLtEmulationDescAttributes_t name, T value) {
    check_library(cublasLtEmulationDescSetAttribute(&emulation_, name, &value, sizeof(value)),
                  "cublasLtEmulationDescSetAttribute");
  }
  cublasStatus_t multiply() {
    const double one = 1, zero = 0;
    return cublasLtMatmul(handle_.get(), &product_, &one, b_.data(), &layout_, a_.data(), &layout_,
                          &zero, c_.data(), &layout_, c_.data(), &layout_, &algorithm_,
                          workspace_->data(), workspace_->bytes() - 1, gpu_.stream());
  }
  /// Empty for success. Throws Error unless the library does not support the product.
  static std::string status_text(cublasStatus_t status) {
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH) {
      return std::string("cuBLAS does not emulate it on this GPU (") +
             cublasLtGetStatusString(status) + ")";
    }
    check_library(status, "cublasLtMatmul");
    return "";
  }

  struct Destroy {
    void operator()(cublasLtHandle_t handle) const { (void)cublasLtDestroy(handle); }
  };
  Gpu& gpu_;
  std::uint64_t n_;
  DeviceArray<double> a_, b_, c_;
  DeviceArray<std::int32_t> bits_{1};
  std::unique_ptr<DeviceArray<std::byte>> workspace_;
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, Destroy> handle_;
  cublasLtMatmulDescOpaque_t product_{};
  cublasLtEmulationDescOpaque_t emulation_{};
  cublasLtMatrixLayoutOpaque_t layout_{};
  cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace

std::unique_ptr<EmulatedProduct> make_emulated_product(Gpu& gpu, std::uint64_t n,
                                                       std::string& why) {
  why = why_not_emulated(CUBLAS_VERSION, cublasLtGetVersion());
  if (!why.empty()) return nullptr;
  auto product = std::make_unique<FixedPointProduct>(gpu, n);
  why = product->prepare();
  if (!why.empty()) return nullptr;
  return product;
}
#else
std::unique_ptr<EmulatedProduct> make_emulated_product(Gpu&, std::uint64_t, std::string& why) {
  why = why_not_emulated(CUBLAS_VERSION, cublasLtGetVersion());
  return nullptr;
}
#endif

}  // namespace shardstream::experiments::instructions
