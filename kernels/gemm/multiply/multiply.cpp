#include "kernels/gemm/multiply/multiply.hpp"

#include <stdexcept>

#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/multiply/cblas.hpp"
#include "kernels/gemm/multiply/residue_plan.hpp"

namespace shardstream::gemm {
namespace {

/// Divides the work into whole calls, one per lane of a tile, so that the bits do not depend on the
/// number of parts.
class HostPlan final : public MultiplyPlan {
 public:
  HostPlan(Precision precision, const Tile& tile)
      : precision_(precision), tile_(tile), algorithm_(cblas::prepare()) {
    if (sums_integers(precision) && tile.lane_k() > max_float_int8_k) {
      throw std::logic_error("a block of K is too deep for integers in floats");
    }
    if (sums_integers(precision) && tile.is_narrow()) {
      throw std::logic_error("products of integers are not narrow");
    }
  }

  const std::string& algorithm() const override { return algorithm_; }

  void multiply(const MultiplyArgs& args, unsigned part, unsigned parts) const override {
    if (sums_integers(precision_)) return multiply_integers(args, part, parts);
    with_host_panel_type(precision_, [&](auto of) {
      multiply_part<typename decltype(of)::type>(args, part, parts);
    });
  }

  void enqueue(const MultiplyArgs&, CudaStream) const override {
    throw std::logic_error("a plan for a host was used on a GPU");
  }

 private:
  /// The shape of one library call.
  Tile call(const MultiplyArgs& args) const {
    return {tile_.m, tile_.n, factor_depth(precision_, args.k) / tile_.lanes};
  }
  /// The leading dimension of A's factor.
  std::uint64_t lda(const MultiplyArgs& args) const {
    return a_ld(precision_, factor_depth(precision_, args.k), Backend::host);
  }

  /// Calls each(number of the accumulator, its rows of A, its columns of B) for each lane of a tile
  /// in this part.
  template <class T, class Each>
  void for_lanes(const MultiplyArgs& args, unsigned part, unsigned parts, Each each) const {
    const Tile one = call(args);
    const Rows calls = rows_of(args.count * tile_.lanes, part, parts);
    for (std::uint64_t i = calls.begin; i < calls.end; ++i) {
      const TileAt at = args.at[i / tile_.lanes];
      const std::uint64_t kk = i % tile_.lanes * one.k;
      each(i, static_cast<const T*>(args.a) + at.row * one.m * lda(args) + kk,
           static_cast<const T*>(args.b) + kk * args.ldb + at.column * one.n);
    }
  }

  /// Each call is the square of a lane's part of the folded panel.
  template <class T>
  void square_part(const MultiplyArgs& args, unsigned part, unsigned parts) const {
    const Rows lanes = rows_of(tile_.lanes, part, parts);
    for (std::uint64_t lane = lanes.begin; lane < lanes.end; ++lane) {
      cblas::square(tile_.folded_n(), tile_.lane_k() / tile_.fold,
                    static_cast<const T*>(args.b) + lane * tile_.lane_k() * tile_.n,
                    static_cast<T*>(args.tiles) + lane * tile_.lane_elements(), args.first);
    }
  }

  template <class T>
  void multiply_part(const MultiplyArgs& args, unsigned part, unsigned parts) const {
    if (tile_.is_narrow()) return square_part<T>(args, part, parts);
    for_lanes<T>(args, part, parts, [&](std::uint64_t i, const T* a, const T* b) {
      cblas::multiply(call(args), a, lda(args), b, args.ldb,
                      static_cast<T*>(args.tiles) + i * tile_.m * tile_.n, args.first);
    });
  }

  /// Multiplies in floats, whose sums are integers up to 2^24 and therefore exact, and adds the
  /// results in 32 bits.
  void multiply_integers(const MultiplyArgs& args, unsigned part, unsigned parts) const {
    const std::uint64_t count = tile_.m * tile_.n;
    const auto products = std::make_unique_for_overwrite<float[]>(count);
    for_lanes<float>(args, part, parts, [&](std::uint64_t i, const float* a, const float* b) {
      cblas::multiply(call(args), a, lda(args), b, args.ldb, products.get(), true);
      auto* const sums = static_cast<std::int32_t*>(args.tiles) + i * count;
      for (std::uint64_t e = 0; e < count; ++e) {
        sums[e] = (args.first ? 0 : sums[e]) + static_cast<std::int32_t>(products[e]);
      }
    });
  }

  Precision precision_;
  Tile tile_;
  std::string algorithm_;
};

void multiply(const MultiplyArgs& args, unsigned part, unsigned parts) {
  args.plan->multiply(args, part, parts);
}

}  // namespace

std::unique_ptr<MultiplyPlan> make_multiply_plan(Precision precision, const Tile& tile,
                                                 Backend backend) {
  const bool of_residues = multiplies_residues(precision);
  if (backend == Backend::host) {
    if (of_residues) return make_residue_plan(precision, tile);
    return std::make_unique<HostPlan>(precision, tile);
  }
  if constexpr (built_with_cuda) {
    return of_residues ? cuda::make_residue_plan(precision, tile)
                       : cuda::make_multiply_plan(precision, tile);
  } else {
    throw std::logic_error("a build without CUDA has no plan for a GPU");
  }
}

std::vector<TileAt> all_tiles(std::uint64_t rows, std::uint64_t columns) {
  std::vector<TileAt> tiles;
  for (std::uint64_t row = 0; row < rows; ++row) {
    for (std::uint64_t column = 0; column < columns; ++column) tiles.push_back({row, column});
  }
  return tiles;
}

bool host_multiply_exists() {
  return cblas::exists();
}

HostLibrary host_library() {
  if (!cblas::exists()) return {"-", "-", "-", "-"};
  try {
    const auto [version, core, core_chosen_by, threads] = cblas::describe();
    return {version, core, core_chosen_by, threads};
  } catch (const std::exception&) {  // the error of a product on this host has the reason
    return {"unknown", "unknown", "unknown", "unknown"};
  }
}

void set_library_environment() {
  cblas::set_environment();
}

Kernel<MultiplyArgs> multiply_kernel() {
  return {"multiply", multiply, with_cuda<cuda::multiply>()};
}

}  // namespace shardstream::gemm
