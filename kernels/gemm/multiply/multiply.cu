#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>
#include <type_traits>

#include "kernels/gemm/cuda.hpp"

namespace shardstream::gemm::cuda {
namespace {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // it is told here: the next launch must not find it again
  throw std::runtime_error(std::string(call)
                               .append(" failed (")
                               .append(cudaGetErrorName(status))
                               .append(": ")
                               .append(cudaGetErrorString(status))
                               .append(")"));
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::string words = std::string(call).append(" failed (").append(cublasLtGetStatusString(status));
  const cudaError_t beneath = cudaGetLastError();  // which the next launch must not find again
  if (beneath != cudaSuccess) words.append(", ").append(cudaGetErrorName(beneath));
  throw std::runtime_error(words.append(")"));
}

// Destroying fails only where the GPU is lost, which the call that noticed has told.
struct DestroyHandle {
  void operator()(cublasLtHandle_t handle) const { (void)cublasLtDestroy(handle); }
};
using Handle = std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, DestroyHandle>;
struct FreeDevice {
  void operator()(void* data) const { (void)cudaFree(data); }
};
using DeviceMemory = std::unique_ptr<void, FreeDevice>;

Handle make_handle() {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "cublasLtCreate");
  return Handle(handle);
}

DeviceMemory allocate(std::size_t bytes) {
  void* data = nullptr;
  check(cudaMalloc(&data, bytes), "cudaMalloc of cuBLASLt's workspace");
  return DeviceMemory(data);
}

constexpr std::uint64_t most_of_one = most_workspace / multiply_streams(false);

/// Of one of them. The library advises 32 MiB for 9.0 and above.
std::size_t workspace_of_current_gpu() {
  int gpu = 0, major = 0;
  check(cudaGetDevice(&gpu), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu),
        "cudaDeviceGetAttribute");
  return major >= 9 ? most_of_one : most_of_one / 2;
}

struct Types {
  cudaDataType_t panel, sum;
  cublasComputeType_t compute;
};

Types types_of(Precision precision) {
  constexpr Types types[] = {
      // in the order of Precision
      {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F},
      {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
      {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32},
      {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F},
      {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
      {CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I},
      {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32},
  };
  return types[static_cast<std::size_t>(precision)];
}

using Layout = cublasLtMatrixLayoutOpaque_t;

Layout layout(cudaDataType_t type, std::uint64_t rows, std::uint64_t columns, std::uint64_t ld) {
  Layout made;
  check(cublasLtMatrixLayoutInit(&made, type, rows, columns, static_cast<std::int64_t>(ld)),
        "cublasLtMatrixLayoutInit");
  return made;
}

/// The bytes on which every tile begins, `apart` bytes behind each other from a place on 256.
std::uint32_t alignment(std::uint64_t apart) {
  return std::uint32_t{1} << std::min(8, std::countr_zero(apart));
}

/// The library counts columns first, to which a row-major matrix is its transpose: C^T = B^T A^T,
/// so that its first factor is B and its second A. Of 8-bit whole numbers it wants the first
/// transposed, which to it a B of one column a row is.
class GpuPlan final : public MultiplyPlan {
 public:
  GpuPlan(Precision precision, const Tile& tile)
      : tile_(tile),
        precision_(precision),
        transposed_b_(multiplies_transposed_b(precision, false)),
        types_(types_of(precision)),
        panel_bytes_(panel_element_bytes(precision, false)),
        sum_bytes_(accumulator_bytes(precision)),
        handle_(make_handle()),
        c_(in_lanes(layout(types_.sum, tile.n, tile.m, tile.n), tile.m * tile.n)) {
    check(cublasLtMatmulDescInit(&product_, types_.compute, types_.sum), "cublasLtMatmulDescInit");
    if (transposed_b_) {
      const cublasOperation_t turned = CUBLAS_OP_T;
      check(cublasLtMatmulDescSetAttribute(&product_, CUBLASLT_MATMUL_DESC_TRANSA, &turned,
                                           sizeof(turned)),
            "cublasLtMatmulDescSetAttribute");
    }
    const unsigned depths = may_begin_shallow(tile, precision) ? std::size(calls_) : 1;
    words_ = "cuBLASLt " + std::to_string(cublasLtGetVersion());
    std::size_t workspace_bytes = 1;
    for (unsigned i = 0; i < depths; ++i) {
      calls_[i] = choose(tile.k >> i);
      describe(calls_[i]);
      workspace_bytes = std::max(workspace_bytes, calls_[i].workspace_bytes);
    }
    for (auto& workspace : workspaces_) workspace = allocate(workspace_bytes);
  }

  const std::string& algorithm() const override { return words_; }

  void multiply(const MultiplyArgs&, unsigned, unsigned) const override {
    throw std::logic_error("a GPU's plan multiplies on no host");
  }

  void enqueue(const MultiplyArgs& args, CudaStream stream) const override {
    Call& call = call_of(args.k);
    Layout b_layout = layout_of_b(tile_.n, call.depth, args.ldb);
    const auto* a = static_cast<const std::byte*>(args.a);
    const auto* b = static_cast<const std::byte*>(args.b);
    auto* c = static_cast<std::byte*>(args.tiles);
    void* const workspace = workspaces_.at(args.workspace).get();
    for (std::uint64_t t = 0; t < args.count; ++t) {
      const TileAt at = args.at[t];
      multiply_tile(call, a + at.row * a_apart(call.depth), b + at.column * b_apart(args.ldb),
                    b_layout, c + t * tile_.lanes * c_apart(), args.first, stream, workspace);
    }
  }

 private:
  /// What products of one depth take.
  struct Call {
    std::uint64_t k = 0, depth = 0;  ///< of panels, of factors
    Layout a;
    cublasLtMatmulAlgo_t algorithm;
    std::size_t workspace_bytes = 0;
  };

  Call& call_of(std::uint64_t k) const {
    for (Call& call : calls_) {
      if (call.k == k) return call;
    }
    throw std::logic_error("the plan is for other depths");
  }

  // The tile that the algorithm is chosen for.
  std::uint64_t like_m() const { return tile_.like_m > 0 ? tile_.like_m : tile_.m; }
  std::uint64_t like_n() const { return tile_.like_n > 0 ? tile_.like_n : tile_.n; }

  // Bytes from tile to tile.
  std::uint64_t a_apart(std::uint64_t depth) const {
    return tile_.m * a_ld(precision_, depth, false) * panel_bytes_;
  }
  std::uint64_t b_apart(std::uint64_t ldb) const {
    return tile_.n * (transposed_b_ ? ldb : 1) * panel_bytes_;
  }
  std::uint64_t c_apart() const { return tile_.m * tile_.n * sum_bytes_; }

  /// The matrices of all lanes, `apart` elements from one to the next.
  Layout in_lanes(Layout of_one, std::uint64_t apart) const {
    const auto lanes = static_cast<std::int32_t>(tile_.lanes);
    const auto offset = static_cast<std::int64_t>(apart);
    check(cublasLtMatrixLayoutSetAttribute(&of_one, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &lanes,
                                           sizeof(lanes)),
          "cublasLtMatrixLayoutSetAttribute");
    check(cublasLtMatrixLayoutSetAttribute(&of_one, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                           &offset, sizeof(offset)),
          "cublasLtMatrixLayoutSetAttribute");
    return of_one;
  }

  /// As the library sees A, `m` high and `depth` deep, its lanes side by side.
  Layout layout_of_a(std::uint64_t m, std::uint64_t depth, std::uint64_t lda) const {
    const std::uint64_t of_lane = depth / tile_.lanes;
    return in_lanes(layout(types_.panel, of_lane, m, lda), of_lane);
  }
  /// As the library sees B, `n` wide and `depth` deep.
  Layout layout_of_b(std::uint64_t n, std::uint64_t depth, std::uint64_t ldb) const {
    const std::uint64_t of_lane = depth / tile_.lanes;
    return transposed_b_ ? in_lanes(layout(types_.panel, of_lane, n, ldb), of_lane)
                         : in_lanes(layout(types_.panel, n, of_lane, ldb), of_lane * ldb);
  }
  /// Of a factor for one tile alone.
  Layout dense_b(std::uint64_t n, std::uint64_t depth) const {
    return layout_of_b(n, depth, transposed_b_ ? depth : n);
  }

  void multiply_tile(Call& call, const std::byte* a, const std::byte* b, Layout& b_layout,
                     std::byte* c, bool first, CudaStream stream, void* workspace) const {
    struct Scales {
      double d;
      float f;
      std::int32_t i;
    };
    static constexpr Scales zero{0, 0, 0}, one{1, 1, 1};
    const auto scale = [&](const Scales& value) -> const void* {
      if (types_.sum == CUDA_R_64F) return &value.d;
      if (types_.sum == CUDA_R_32I) return &value.i;
      return &value.f;
    };
    check(cublasLtMatmul(handle_.get(), &product_, scale(one), b, &b_layout, a, &call.a,
                         scale(first ? zero : one), c, &c_, c, &c_, &call.algorithm, workspace,
                         call.workspace_bytes, stream),
          "cublasLtMatmul");
  }

  /// The first algorithm that the library proposes for panels of one tile; a wider B panel is laid
  /// out alike. Without split sums of K, whose parts come together in an order of their own.
  Call choose(std::uint64_t k) {
    const std::uint64_t depth = factor_depth(precision_, k);
    Call call{k, depth, layout_of_a(tile_.m, depth, a_ld(precision_, depth, false)), {}, 0};
    cublasLtMatmulPreferenceOpaque_t wishes;
    check(cublasLtMatmulPreferenceInit(&wishes), "cublasLtMatmulPreferenceInit");
    const auto wish = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
      check(cublasLtMatmulPreferenceSetAttribute(&wishes, name, &value, sizeof(value)),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    // Floats on plain cores are faster with what the library proposes for a large product, where
    // tiles run side by side, without a workspace; on tensor cores and with doubles its proposal
    // for one tile is.
    const bool large = precision_ == Precision::fp32 && std::min(like_m(), like_n()) >= 2048;
    wish(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
         static_cast<std::uint64_t>(large ? 0 : workspace_of_current_gpu()));
    wish(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
    const std::uint64_t of_lane = depth / tile_.lanes * panel_bytes_;
    const std::uint64_t b_of_lane = transposed_b_ ? of_lane : of_lane * tile_.n;
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(b_apart(depth) | b_of_lane));
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(a_apart(depth) | of_lane));
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(c_apart()));
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(c_apart()));

    if (!(large && take_one_of(propose(wishes, 4, depth), call)) &&
        !take_one_of(propose(wishes, 1, depth), call)) {
      throw std::runtime_error(question(depth) + " found none that does");
    }
    return call;
  }

  struct Proposals {
    std::array<cublasLtMatmulHeuristicResult_t, 8> list{};
    int count = 0;
  };

  std::string question(std::uint64_t depth) const {
    return std::string("cublasLtMatmulAlgoGetHeuristic for tiles of ")
        .append(std::to_string(like_m()))
        .append(" x ")
        .append(std::to_string(like_n()))
        .append(" x ")
        .append(std::to_string(depth))
        .append(tile_.lanes > 1 ? " in " + std::to_string(tile_.lanes) + " lanes" : "")
        .append(" in ")
        .append(name_of(precision_));
  }

  /// What the library proposes for a product `times` as large in each direction.
  Proposals propose(cublasLtMatmulPreferenceOpaque_t& wishes, std::uint64_t times,
                    std::uint64_t depth) {
    const std::uint64_t m = times * like_m(), n = times * like_n(), k = times * depth;
    Layout a = layout_of_a(m, k, k), b = dense_b(n, k);
    Layout c = in_lanes(layout(types_.sum, n, m, n), m * n);
    Proposals proposed;
    check(cublasLtMatmulAlgoGetHeuristic(handle_.get(), &product_, &b, &a, &c, &c, &wishes,
                                         static_cast<int>(proposed.list.size()),
                                         proposed.list.data(), &proposed.count),
          question(depth).c_str());
    return proposed;
  }

  /// Takes the first that does for a tile; false if none does.
  bool take_one_of(const Proposals& proposed, Call& call) {
    Layout b = dense_b(tile_.n, call.depth);
    for (int i = 0; i < proposed.count; ++i) {
      const cublasLtMatmulHeuristicResult_t& each = proposed.list[static_cast<std::size_t>(i)];
      cublasLtMatmulHeuristicResult_t here{};
      if (each.state != CUBLAS_STATUS_SUCCESS ||
          cublasLtMatmulAlgoCheck(handle_.get(), &product_, &b, &call.a, &c_, &c_, &each.algo,
                                  &here) != CUBLAS_STATUS_SUCCESS ||
          here.workspaceSize > most_of_one) {
        continue;
      }
      call.algorithm = each.algo;
      call.workspace_bytes = here.workspaceSize;
      return true;
    }
    return false;
  }

  void describe(const Call& call) {
    const auto value = [&](cublasLtMatmulAlgoConfigAttributes_t name) {
      std::uint32_t got = 0;
      std::size_t written = 0;
      check(
          cublasLtMatmulAlgoConfigGetAttribute(&call.algorithm, name, &got, sizeof(got), &written),
          "cublasLtMatmulAlgoConfigGetAttribute");
      return std::to_string(got);
    };
    words_.append(", k = ")
        .append(std::to_string(call.k))
        .append(tile_.lanes > 1 ? " in " + std::to_string(tile_.lanes) + " lanes" : "")
        .append(": algorithm ")
        .append(value(CUBLASLT_ALGO_CONFIG_ID))
        .append(" tile ")
        .append(value(CUBLASLT_ALGO_CONFIG_TILE_ID))
        .append(" stages ")
        .append(value(CUBLASLT_ALGO_CONFIG_STAGES_ID));
  }

  Tile tile_;
  Precision precision_;
  bool transposed_b_;
  Types types_;
  std::size_t panel_bytes_, sum_bytes_;
  Handle handle_;
  // The library reads these alone, but its functions do not say so.
  mutable Layout c_;
  mutable cublasLtMatmulDescOpaque_t product_;
  mutable Call calls_[3];  ///< of tile.k, and what K may begin with: its half and quarter
  std::array<DeviceMemory, multiply_streams(false)> workspaces_;
  std::string words_;
};

}  // namespace

std::unique_ptr<MultiplyPlan> make_multiply_plan(Precision precision, const Tile& tile) {
  return std::make_unique<GpuPlan>(precision, tile);
}

void multiply(const MultiplyArgs& args, CudaStream stream) {
  args.plan->enqueue(args, stream);
}

}  // namespace shardstream::gemm::cuda
