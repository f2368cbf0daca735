#include "kernels/gemm/multiply/residue_plan.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include "kernels/gemm/multiply/cblas.hpp"

namespace shardstream::gemm {
namespace {

/// Divides the work into whole tiles. A tile is multiplied in strips of rows, so that the products
/// of all moduli fit into a cache.
class HostResiduePlan final : public MultiplyPlan {
 public:
  HostResiduePlan(Precision precision, const Tile& tile)
      : precision_(precision), tile_(tile), algorithm_(cblas::prepare()) {
    if (tile.has_lanes()) throw std::logic_error("products of residues have no lanes");
  }

  const std::string& algorithm() const override { return algorithm_; }

  void multiply(const MultiplyArgs& args, unsigned part, unsigned parts) const override {
    const Rows tiles = rows_of(args.count, part, parts);
    Memory memory(tile_);
    for (std::uint64_t t = tiles.begin; t < tiles.end; ++t) {
      for (std::uint64_t row = 0; row < tile_.m; row += strip_rows) {
        multiply_strip(args, t, row, std::min(strip_rows, tile_.m - row), memory);
      }
    }
  }

  void enqueue(const MultiplyArgs&, CudaStream) const override {
    throw std::logic_error("a plan for a host was used on a GPU");
  }

 private:
  static constexpr std::uint64_t strip_rows = 128;

  struct Memory {
    explicit Memory(const Tile& tile)
        : a(strip_rows * max_float_int8_k),
          b(tile.n * max_float_int8_k),
          sums(strip_rows * tile.n),
          products(tile.moduli * strip_rows * tile.n) {}
    std::vector<float> a, b, sums;
    std::vector<std::int32_t> products;
  };

  /// Converts columns [first, first + depth) of `lines` lines of a plane of depth k.
  static void to_floats(const std::int8_t* plane, std::uint64_t lines, std::uint64_t k,
                        std::uint64_t first, std::uint64_t depth, std::vector<float>& to) {
    for (std::uint64_t line = 0; line < lines; ++line) {
      std::copy_n(plane + line * k + first, depth, to.data() + line * depth);
    }
  }

  void multiply_strip(const MultiplyArgs& args, std::uint64_t t, std::uint64_t first_row,
                      std::uint64_t rows, Memory& memory) const {
    const ResidueStrip strip = strip_of(args, precision_, tile_, Backend::host, t, first_row, rows,
                                        memory.products.data());
    const std::uint64_t count = rows * tile_.n;
    for (unsigned modulus = 0; modulus < tile_.moduli; ++modulus) {
      std::int32_t* const sums = memory.products.data() + modulus * count;
      std::fill_n(sums, count, 0);
      for (std::uint64_t kk = 0; kk < args.k; kk += max_float_int8_k) {
        const std::uint64_t depth = std::min(max_float_int8_k, args.k - kk);
        to_floats(strip.a.data + modulus * strip.a.pitch, rows, args.k, kk, depth, memory.a);
        to_floats(strip.b.data + modulus * strip.b.pitch, tile_.n, args.k, kk, depth, memory.b);
        cblas::multiply_transposed({rows, tile_.n, depth}, memory.a.data(), memory.b.data(),
                                   memory.sums.data(), true);
        for (std::uint64_t e = 0; e < count; ++e) {
          sums[e] += static_cast<std::int32_t>(memory.sums[e]);
        }
      }
    }
    reconstruct_kernel().host(strip.reconstruct, 0, 1);
  }

  Precision precision_;
  Tile tile_;
  std::string algorithm_;
};

}  // namespace

std::unique_ptr<MultiplyPlan> make_residue_plan(Precision precision, const Tile& tile) {
  return std::make_unique<HostResiduePlan>(precision, tile);
}

}  // namespace shardstream::gemm
