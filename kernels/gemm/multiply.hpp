// Products of panels, tile by tile, each with one call of a library: cuBLASLt on a GPU, a CBLAS on
// a host. Everything is row-major.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/gemm/factor.hpp"
#include "kernels/gemm/grid.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::gemm {

class MultiplyPlan;

/// tiles[i][j] = A_i B_j if `first`, else tiles[i][j] += A_i B_j, for tiles_m x tiles_n tiles. Tile
/// (i, j) lies dense at tiles + (i * tiles_n + j) * tile.m * tile.n.
///
/// The bits of a tile depend on its own numbers, the plan's precision, shape and algorithm() and
/// `first` alone: not on i, j, ldb, the number of tiles, or the number of threads.
struct MultiplyArgs {
  const MultiplyPlan* plan;  ///< of the backend whose stream computes
  /// The factors (factor.hpp), of the depth d = factor_depth(precision, tile.k): A's of tiles_m *
  /// tile.m x d, rows d elements apart; B's of d x tiles_n * tile.n, rows ldb elements apart, ldb a
  /// multiple of tile.n. Where multiplies_transposed_b(), B's is of tiles_n * tile.n x d, rows ldb
  /// elements apart, ldb a multiple of 16, usually d. Elements are the panels'
  /// (panel_element_bytes). Begin on 256 bytes, or a multiple of whole tiles behind such a place.
  const void* a;
  const void* b;
  std::uint64_t ldb;
  void* tiles;  ///< of accumulator_type(precision); begins as the factors do
  std::uint64_t tiles_m, tiles_n;
  bool first;
};

/// What the calls of one shape need: the library's handle, a workspace, the algorithm. Launches
/// with one plan must follow each other, on one stream or by events: they share the workspace. The
/// plan lives until they are done.
class MultiplyPlan {
 public:
  virtual ~MultiplyPlan() = default;
  MultiplyPlan(const MultiplyPlan&) = delete;
  MultiplyPlan& operator=(const MultiplyPlan&) = delete;

  /// The library, its version and the algorithm, for people.
  virtual const std::string& algorithm() const = 0;

  /// The kernel's two functions; of another backend's plan std::logic_error.
  virtual void multiply(const MultiplyArgs& args, unsigned part, unsigned parts) const = 0;
  virtual void enqueue(const MultiplyArgs& args, CudaStream stream) const = 0;

 protected:
  MultiplyPlan() = default;
};

/// Device memory, in bytes, that a plan for a GPU takes at most; the libraries' own code not
/// counted.
inline constexpr std::uint64_t most_workspace = std::uint64_t{64} << 20;

/// Not in the timed part: it loads libraries and takes device memory. For a GPU the calling
/// thread's is meant, and the shape must be one of tile_for(): tile.k is that of panels, what is
/// multiplied is factor_depth() deep. Throws std::runtime_error, with the
/// library's words, if the library refuses the shape or is not part of this build.
std::unique_ptr<MultiplyPlan> make_multiply_plan(Precision precision, const Tile& tile,
                                                 bool on_host);

/// Whether a CBLAS was found when this program was built.
bool host_multiply_exists();

/// A launch that a library refuses throws std::runtime_error with its words, on a host in the
/// thread that computes.
Kernel<MultiplyArgs> multiply_kernel();

}  // namespace shardstream::gemm
