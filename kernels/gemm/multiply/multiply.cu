#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/multiply/library_types.hpp"
#include "kernels/gemm/multiply/workspace.hpp"

namespace shardstream::gemm::cuda {
namespace {

using cuda::check;

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::string text = std::string(call).append(" failed (").append(cublasLtGetStatusString(status));
  const cudaError_t cause = cudaGetLastError();  // also clears it for the next launch
  if (cause != cudaSuccess) text.append(", ").append(cudaGetErrorName(cause));
  throw std::runtime_error(text.append(")"));
}

// Destroying fails only if the GPU is lost, which an earlier call has reported.
struct DestroyHandle {
  void operator()(cublasLtHandle_t handle) const { (void)cublasLtDestroy(handle); }
};
using Handle = std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, DestroyHandle>;
/// Measures the time of enqueued work on the default stream.
class Timer {
 public:
  Timer() {
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  ~Timer() {
    (void)cudaEventDestroy(begin_);
    (void)cudaEventDestroy(end_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  template <class Enqueue>
  float milliseconds(const Enqueue& enqueue) const {
    check(cudaEventRecord(begin_), "cudaEventRecord");
    enqueue();
    check(cudaEventRecord(end_), "cudaEventRecord");
    check(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float passed = 0;
    check(cudaEventElapsedTime(&passed, begin_, end_), "cudaEventElapsedTime");
    return passed;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

Handle make_handle() {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "cublasLtCreate");
  return Handle(handle);
}

constexpr std::uint64_t max_workspace_of_one = max_workspace / multiply_streams(Backend::cuda);

/// The bytes of one workspace. NVIDIA recommends 32 MiB for compute capability 9.0 and above.
std::size_t workspace_of_current_gpu() {
  int gpu = 0, major = 0;
  check(cudaGetDevice(&gpu), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu),
        "cudaDeviceGetAttribute");
  return major >= 9 ? max_workspace_of_one : max_workspace_of_one / 2;
}

using Layout = cublasLtMatrixLayoutOpaque_t;

Layout layout(cudaDataType_t type, std::uint64_t rows, std::uint64_t columns, std::uint64_t ld) {
  Layout made;
  check(cublasLtMatrixLayoutInit(&made, type, rows, columns, static_cast<std::int64_t>(ld)),
        "cublasLtMatrixLayoutInit");
  return made;
}

/// The alignment in bytes, up to 256, of tiles with a pitch of `pitch` bytes that begin at a
/// multiple of 256.
std::uint32_t alignment(std::uint64_t pitch) {
  return std::uint32_t{1} << std::min(8, std::countr_zero(pitch));
}

/// The shape of the library's call for a tile: that of the square of a folded panel if it is
/// narrow.
Tile shape_of_call(Tile tile) {
  if (tile.is_narrow()) tile.m = tile.n = tile.folded_n();
  return tile;
}

/// The library's matrices are column-major, and a row-major matrix is a transposed one for it. So
/// it computes C^T = B^T A^T: its first factor is B, the second A. For 8-bit integers its first
/// factor must be transposed, which is a B with one column per row. For a narrow product both
/// factors are the folded panel, and the second one is transposed.
class GpuPlan final : public MultiplyPlan {
 public:
  GpuPlan(Precision precision, const Tile& tile)
      : tile_(shape_of_call(tile)),
        precision_(precision),
        transposed_b_(multiplies_transposed_b(precision, Backend::cuda)),
        types_(library_types(precision)),
        panel_bytes_(panel_element_bytes(precision, Backend::cuda)),
        sum_bytes_(accumulator_bytes(precision)),
        handle_(make_handle()),
        batch_(std::max<std::uint64_t>(tile.lanes, tile.moduli)),
        c_(in_batch(layout(types_.sum, tile_.n, tile_.m, tile_.n), tile_.m * tile_.n)) {
    if (tile.is_narrow() && transposed_b_) {
      throw std::logic_error("products of integers are not narrow");
    }
    check(cublasLtMatmulDescInit(&product_, types_.compute, types_.sum), "cublasLtMatmulDescInit");
    if (transposed_b_) transpose_factor(CUBLASLT_MATMUL_DESC_TRANSA);
    if (tile.is_narrow()) transpose_factor(CUBLASLT_MATMUL_DESC_TRANSB);
    const unsigned depths = may_begin_shallow(tile, precision) ? std::size(calls_) : 1;
    description_ = "cuBLASLt " + std::to_string(cublasLtGetVersion());
    std::size_t workspace_bytes = 1;
    for (unsigned i = 0; i < depths; ++i) {
      calls_[i] = choose(tile.k >> i);
      describe(calls_[i]);
      workspace_bytes = std::max(workspace_bytes, calls_[i].workspace_bytes);
    }
    for (auto& workspace : workspaces_)
      workspace = allocate(workspace_bytes, "cuBLASLt's workspace");
  }

  const std::string& algorithm() const override { return description_; }

  void multiply(const MultiplyArgs&, unsigned, unsigned) const override {
    throw std::logic_error("a plan for a GPU was used on a host");
  }

  void enqueue(const MultiplyArgs& args, CudaStream stream) const override {
    Call& call = call_of(args.k);
    if (tile_.moduli > 0) return multiply_planes(call, args, stream);
    Layout b_layout = layout_of_b(tile_.n, call.depth, tile_.is_narrow() ? tile_.n : args.ldb);
    const auto* b = static_cast<const std::byte*>(args.b);
    const auto* a = tile_.is_narrow() ? b : static_cast<const std::byte*>(args.a);
    auto* c = static_cast<std::byte*>(args.tiles);
    void* const workspace = workspaces_.at(args.workspace).get();
    for (std::uint64_t t = 0; t < args.count; ++t) {
      const TileAt at = args.at[t];
      multiply_tile(call, a + at.row * a_pitch(call.depth), call.a,
                    b + at.column * b_pitch(args.ldb), b_layout, c + t * tile_.lanes * c_pitch(),
                    args.first, stream, workspace);
    }
  }

 private:
  /// The library's arguments for products of one depth.
  struct Call {
    std::uint64_t k = 0;      ///< depth of the panels
    std::uint64_t depth = 0;  ///< depth of the factors, or of the folded panel
    Layout a;
    cublasLtMatmulAlgo_t algorithm;
    std::size_t workspace_bytes = 0;
  };

  void transpose_factor(cublasLtMatmulDescAttributes_t factor) {
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check(cublasLtMatmulDescSetAttribute(&product_, factor, &transposed, sizeof(transposed)),
          "cublasLtMatmulDescSetAttribute");
  }

  Call& call_of(std::uint64_t k) const {
    for (Call& call : calls_) {
      if (call.k == k) return call;
    }
    throw std::logic_error("the plan has no call of this depth");
  }

  void multiply_planes(Call& call, const MultiplyArgs& args, CudaStream stream) const {
    const Residues &a = args.residues.a, &b = args.residues.b;
    Layout a_layout = in_batch(layout(types_.factor, args.k, tile_.m, args.k), a.pitch);
    Layout b_layout = in_batch(layout(types_.factor, args.k, tile_.n, args.k), b.pitch);
    for (std::uint64_t t = 0; t < args.count; ++t) {
      const TileAt at = args.at[t];
      multiply_tile(call, a.from(at.row * tile_.m, args.k).data, a_layout,
                    b.from(at.column * tile_.n, args.k).data, b_layout,
                    static_cast<std::byte*>(args.tiles) + t * batch_ * c_pitch(), args.first,
                    stream, workspaces_.at(args.workspace).get());
    }
  }

  // The edges of the tile that the algorithm is chosen for.
  std::uint64_t like_m() const { return tile_.like_m > 0 ? tile_.like_m : tile_.m; }
  std::uint64_t like_n() const { return tile_.like_n > 0 ? tile_.like_n : tile_.n; }

  // Bytes from one tile to the next.
  std::uint64_t a_pitch(std::uint64_t depth) const {
    return tile_.m * a_ld(precision_, depth, Backend::cuda) * panel_bytes_;
  }
  std::uint64_t b_pitch(std::uint64_t ldb) const {
    return tile_.n * (transposed_b_ ? ldb : 1) * panel_bytes_;
  }
  std::uint64_t c_pitch() const { return tile_.m * tile_.n * sum_bytes_; }

  /// The layout of all lanes or planes, with `pitch` elements from one to the next.
  Layout in_batch(Layout of_one, std::uint64_t pitch) const {
    const auto count = static_cast<std::int32_t>(batch_);
    const auto offset = static_cast<std::int64_t>(pitch);
    check(cublasLtMatrixLayoutSetAttribute(&of_one, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                           sizeof(count)),
          "cublasLtMatrixLayoutSetAttribute");
    check(cublasLtMatrixLayoutSetAttribute(&of_one, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                           &offset, sizeof(offset)),
          "cublasLtMatrixLayoutSetAttribute");
    return of_one;
  }

  /// The library's layout of A, with m rows and `depth` columns; its lanes are side by side, and
  /// its planes one after another. For a narrow product, that of the folded panel.
  Layout layout_of_a(std::uint64_t m, std::uint64_t depth, std::uint64_t lda) const {
    if (tile_.moduli > 0) return in_batch(layout(types_.factor, depth, m, lda), m * lda);
    if (tile_.is_narrow()) return layout_of_b(m, depth, m);
    const std::uint64_t of_lane = depth / tile_.lanes;
    return in_batch(layout(types_.factor, of_lane, m, lda), of_lane);
  }
  /// The library's layout of B, with n columns and `depth` rows.
  Layout layout_of_b(std::uint64_t n, std::uint64_t depth, std::uint64_t ldb) const {
    if (tile_.moduli > 0) return in_batch(layout(types_.factor, depth, n, ldb), n * ldb);
    const std::uint64_t of_lane = depth / tile_.lanes;
    return transposed_b_ ? in_batch(layout(types_.factor, of_lane, n, ldb), of_lane)
                         : in_batch(layout(types_.factor, n, of_lane, ldb), of_lane * ldb);
  }
  /// The layout of B's factor for only one tile.
  Layout dense_b(std::uint64_t n, std::uint64_t depth) const {
    return layout_of_b(n, depth, transposed_b_ ? depth : n);
  }

  void multiply_tile(Call& call, const void* a, Layout& a_layout, const void* b, Layout& b_layout,
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
    check(cublasLtMatmul(handle_.get(), &product_, scale(one), b, &b_layout, a, &a_layout,
                         scale(first ? zero : one), c, &c_, c, &c_, &call.algorithm, workspace,
                         call.workspace_bytes, stream),
          "cublasLtMatmul");
  }

  /// Chooses the first algorithm that the library proposes for panels of one tile, which also fits
  /// wider panels of B; for planes, whose sums are exact with all of them, the fastest. Algorithms
  /// with split sums of K are excluded, since they add the parts in an order of their own.
  Call choose(std::uint64_t k) {
    const std::uint64_t depth =
        factor_depth(precision_, k) / std::max<std::uint64_t>(1, tile_.fold);
    Call call{k, depth, layout_of_a(tile_.m, depth, a_ld(precision_, depth, Backend::cuda)), {}, 0};
    cublasLtMatmulPreferenceOpaque_t preference;
    check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
      check(cublasLtMatmulPreferenceSetAttribute(&preference, name, &value, sizeof(value)),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    // With fp32, the proposal for a large product without a workspace is the fastest; with tensor
    // cores and doubles, the proposal for one tile (kernels/MEASUREMENTS.md).
    const bool large =
        traits_of(precision_).likes_large_proposal && std::min(like_m(), like_n()) >= 2048;
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
           static_cast<std::uint64_t>(large ? 0 : workspace_of_current_gpu()));
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
    const std::uint64_t of_lane = depth / tile_.lanes * panel_bytes_;
    const std::uint64_t b_of_lane = transposed_b_ ? of_lane : of_lane * tile_.n;
    const std::uint32_t of_b = alignment(b_pitch(depth) | b_of_lane);
    const std::uint32_t of_a = tile_.is_narrow() ? of_b : alignment(a_pitch(depth) | of_lane);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, of_b);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, of_a);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(c_pitch()));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(c_pitch()));

    if (tile_.moduli > 0) return fastest(propose(preference, 1, depth), call);
    if (!(large && take_valid(propose(preference, 4, depth), call)) &&
        !take_valid(propose(preference, 1, depth), call)) {
      throw std::runtime_error(query_name(depth) + " found no algorithm");
    }
    return call;
  }

  struct Proposals {
    std::array<cublasLtMatmulHeuristicResult_t, 8> list{};
    int count = 0;
  };

  /// The library's query for an algorithm, for error messages.
  std::string query_name(std::uint64_t depth) const {
    return std::string("cublasLtMatmulAlgoGetHeuristic for tiles of ")
        .append(std::to_string(like_m()))
        .append(" x ")
        .append(std::to_string(like_n()))
        .append(" x ")
        .append(std::to_string(depth))
        .append(tile_.lanes > 1 ? " in " + std::to_string(tile_.lanes) + " lanes" : "")
        .append(" in ")
        .append(word_of(precision_));
  }

  /// The library's proposals for a product that is `times` as large in each dimension.
  Proposals propose(cublasLtMatmulPreferenceOpaque_t& preference, std::uint64_t times,
                    std::uint64_t depth) {
    const std::uint64_t m = times * like_m(), n = times * like_n(), k = times * depth;
    Layout a = layout_of_a(m, k, k), b = dense_b(n, k);
    Layout c = in_batch(layout(types_.sum, n, m, n), m * n);
    Proposals proposed;
    check(cublasLtMatmulAlgoGetHeuristic(handle_.get(), &product_, &b, &a, &c, &c, &preference,
                                         static_cast<int>(proposed.list.size()),
                                         proposed.list.data(), &proposed.count),
          query_name(depth).c_str());
    return proposed;
  }

  /// The call with the valid proposal that multiplies planes in the shortest time.
  Call fastest(const Proposals& proposed, const Call& call) {
    const std::uint64_t a_bytes = tile_.moduli * tile_.m * call.depth;
    const std::uint64_t b_bytes = tile_.moduli * tile_.n * call.depth;
    const DeviceMemory a = allocate(a_bytes, "planes"), b = allocate(b_bytes, "planes");
    const DeviceMemory c = allocate(tile_.moduli * c_pitch(), "products of planes");
    const DeviceMemory workspace = allocate(max_workspace_of_one, "cuBLASLt's workspace");
    constexpr int not_zero = 0x55;  // products of zeros run faster
    check(cudaMemset(a.get(), not_zero, a_bytes), "cudaMemset");
    check(cudaMemset(b.get(), not_zero, b_bytes), "cudaMemset");
    const Timer timer;
    Layout b_layout = dense_b(tile_.n, call.depth);
    Call best = call;
    float shortest = std::numeric_limits<float>::infinity();
    for (int i = 0; i < proposed.count; ++i) {
      Call tried = call;
      if (!take_valid(proposed, tried, i)) break;
      const auto multiply = [&] {
        multiply_tile(tried, a.get(), tried.a, b.get(), b_layout, static_cast<std::byte*>(c.get()),
                      true, nullptr, workspace.get());
      };
      multiply();  // loads the kernel
      if (const float milliseconds = timer.milliseconds(multiply); milliseconds < shortest) {
        shortest = milliseconds;
        best = tried;
      }
    }
    if (shortest == std::numeric_limits<float>::infinity()) {
      throw std::runtime_error(query_name(call.depth) + " found no algorithm");
    }
    return best;
  }

  /// Takes the first proposal from number `first` on that is valid for one tile. Returns false if
  /// none is.
  bool take_valid(const Proposals& proposed, Call& call, int first = 0) {
    Layout b = dense_b(tile_.n, call.depth);
    for (int i = first; i < proposed.count; ++i) {
      const cublasLtMatmulHeuristicResult_t& each = proposed.list[static_cast<std::size_t>(i)];
      cublasLtMatmulHeuristicResult_t checked{};
      if (each.state != CUBLAS_STATUS_SUCCESS ||
          cublasLtMatmulAlgoCheck(handle_.get(), &product_, &b, &call.a, &c_, &c_, &each.algo,
                                  &checked) != CUBLAS_STATUS_SUCCESS ||
          checked.workspaceSize > max_workspace_of_one) {
        continue;
      }
      call.algorithm = each.algo;
      call.workspace_bytes = checked.workspaceSize;
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
    description_.append(", k = ")
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
  LibraryTypes types_;
  std::size_t panel_bytes_, sum_bytes_;
  Handle handle_;
  std::uint64_t batch_;  ///< lanes or planes that one call multiplies
  // Mutable, since the library's functions only read these but do not take const pointers.
  mutable Layout c_;
  mutable cublasLtMatmulDescOpaque_t product_;
  mutable Call calls_[3];  ///< for tile.k, its half and its quarter
  std::array<DeviceMemory, multiply_streams(Backend::cuda)> workspaces_;
  std::string description_;
};

}  // namespace

std::unique_ptr<MultiplyPlan> make_multiply_plan(Precision precision, const Tile& tile) {
  return std::make_unique<GpuPlan>(precision, tile);
}

void multiply(const MultiplyArgs& args, CudaStream stream) {
  args.plan->enqueue(args, stream);
}

}  // namespace shardstream::gemm::cuda
