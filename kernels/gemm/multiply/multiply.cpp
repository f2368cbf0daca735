#include "kernels/gemm/multiply/multiply.hpp"

#include <stdexcept>

#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/multiply/cblas.hpp"

namespace shardstream::gemm {
namespace {

/// Deals out whole tiles, so that their bits do not depend on the number of parts.
class HostPlan final : public MultiplyPlan {
 public:
  HostPlan(Precision precision, const Tile& tile)
      : precision_(precision), tile_(tile), algorithm_(cblas::prepare()) {
    if (precision == Precision::int8 && tile.k > most_float_int8_k) {
      throw std::logic_error("a block of K is too deep for int8 in floats");
    }
  }

  const std::string& algorithm() const override { return algorithm_; }

  void multiply(const MultiplyArgs& args, unsigned part, unsigned parts) const override {
    if (precision_ == Precision::fp64) {
      multiply_part<double>(args, part, parts);
    } else if (precision_ == Precision::int8) {
      multiply_whole_numbers(args, part, parts);
    } else {
      multiply_part<float>(args, part, parts);
    }
  }

  void enqueue(const MultiplyArgs&, CudaStream) const override {
    throw std::logic_error("a host's plan multiplies on no GPU");
  }

 private:
  /// What the library multiplies.
  Tile call(const MultiplyArgs& args) const {
    return {tile_.m, tile_.n, factor_depth(precision_, args.k)};
  }

  /// Calls each(tile's number, its rows of A, its columns of B) for the part's tiles.
  template <class T, class Each>
  void for_tiles(const MultiplyArgs& args, unsigned part, unsigned parts, Each each) const {
    const auto [m, n, k] = call(args);
    for (std::uint64_t t = args.count * part / parts; t < args.count * (part + 1) / parts; ++t) {
      each(t, static_cast<const T*>(args.a) + args.at[t].row * m * a_ld(precision_, k, true),
           static_cast<const T*>(args.b) + args.at[t].column * n);
    }
  }

  template <class T>
  void multiply_part(const MultiplyArgs& args, unsigned part, unsigned parts) const {
    for_tiles<T>(args, part, parts, [&](std::uint64_t t, const T* a, const T* b) {
      const Tile one = call(args);
      cblas::multiply(one, a, a_ld(precision_, one.k, true), b, args.ldb,
                      static_cast<T*>(args.tiles) + t * tile_.m * tile_.n, args.first);
    });
  }

  /// In floats, whose sums are whole numbers of at most 2^24, hence exact; then added in 32 bits.
  void multiply_whole_numbers(const MultiplyArgs& args, unsigned part, unsigned parts) const {
    const std::uint64_t count = tile_.m * tile_.n;
    const auto products = std::make_unique_for_overwrite<float[]>(count);
    for_tiles<float>(args, part, parts, [&](std::uint64_t t, const float* a, const float* b) {
      const Tile one = call(args);
      cblas::multiply(one, a, a_ld(precision_, one.k, true), b, args.ldb, products.get(), true);
      auto* const sums = static_cast<std::int32_t*>(args.tiles) + t * count;
      for (std::uint64_t i = 0; i < count; ++i) {
        sums[i] = (args.first ? 0 : sums[i]) + static_cast<std::int32_t>(products[i]);
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
                                                 bool on_host) {
  if (on_host) return std::make_unique<HostPlan>(precision, tile);
  if constexpr (built_with_cuda) {
    return cuda::make_multiply_plan(precision, tile);
  } else {
    throw std::logic_error("this build has no CUDA, so no plan for a GPU");
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
  if (!cblas::exists()) return {"-", "-", "-"};
  try {
    const auto [version, core, threads] = cblas::describe();
    return {version, core, threads};
  } catch (const std::exception&) {  // a product on this host says why
    return {"unknown", "unknown", "unknown"};
  }
}

void set_library_environment() {
  cblas::set_environment();
}

Kernel<MultiplyArgs> multiply_kernel() {
  return {"multiply", multiply, with_cuda<cuda::multiply>()};
}

}  // namespace shardstream::gemm
