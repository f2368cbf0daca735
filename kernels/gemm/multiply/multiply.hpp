// Products of panels, tile by tile, each with one call of a library: cuBLASLt on a GPU, a CBLAS on
// a host. Everything is row-major.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/gemm/grid.hpp"
#include "kernels/gemm/multiply/factor.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::gemm {

class MultiplyPlan;

/// A tile of the product of two panels: rows row * tile.m and on of A, columns column * tile.n and
/// on of B.
struct TileAt {
  std::uint64_t row, column;
};

/// All tiles of a product of rows x columns of them, row by row.
std::vector<TileAt> all_tiles(std::uint64_t rows, std::uint64_t columns);

/// On how many streams a device should multiply tiles, in turns: on a GPU on two, so that the last
/// blocks of one tile leave room for the next one's; a host's threads share out the tiles of one
/// launch.
constexpr unsigned multiply_streams(bool on_host) {
  return on_host ? 1 : 2;
}

/// Tile t, at row i and column j, becomes A_i B_j if `first`, else A_i B_j is added to it. It lies
/// dense at tiles + t * tile.m * tile.n. With lanes, it is tile.lanes accumulators one behind
/// another, at tiles + t * tile.lanes * tile.m * tile.n: lane l gets the products of the columns of
/// A_i and the rows of B_j from l * tile.lane_k() on, tile.lane_k() of them.
///
/// The bits of a tile depend on its own numbers, the plan's precision, shape and algorithm(), k and
/// `first` alone: not on its place, ldb, the number of tiles, or the number of threads.
struct MultiplyArgs {
  const MultiplyPlan* plan;  ///< of the backend whose stream computes
  /// Depth of the panels: tile.k, or where may_begin_shallow() also its half or quarter.
  std::uint64_t k;
  /// The factors (factor.hpp), of the depth d = factor_depth(precision, k): A's is d wide, its
  /// rows a_ld() elements apart, B's d high, its rows ldb apart, ldb a multiple of tile.n. Where
  /// multiplies_transposed_b(), B's is d wide, its rows ldb elements apart, ldb a multiple of 16,
  /// usually d. Elements are the panels' (panel_element_bytes). Begin on 256 bytes, or a multiple
  /// of whole tiles behind such a place.
  const void* a;
  const void* b;
  std::uint64_t ldb;
  void* tiles;       ///< of accumulator_type(precision); begins as the factors do
  const TileAt* at;  ///< `count` of them, to live until the work is done
  std::uint64_t count;
  bool first;
  unsigned workspace = 0;  ///< of the plan's for a GPU, of which there are multiply_streams()
};

/// What the calls of one shape need: the library's handle, workspaces, algorithms. Launches with
/// one workspace must follow each other, on one stream or by events. The plan lives until they are
/// done.
class MultiplyPlan {
 public:
  virtual ~MultiplyPlan() = default;
  MultiplyPlan(const MultiplyPlan&) = delete;
  MultiplyPlan& operator=(const MultiplyPlan&) = delete;

  /// The library, its version and the algorithm for each depth, for people.
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

/// The CBLAS that hosts multiply with, which decides about the bits of their products. All is "-"
/// if this program was built without one, and "unknown" if it cannot be loaded here.
struct HostLibrary {
  std::string version;  ///< with its name and options
  std::string core;     ///< the processor that its kernels are for: "Zen", "Haswell"
  std::string threads;  ///< of one call
};
HostLibrary host_library();

/// To be called once, while the process has one thread: sets what the CBLAS reads when it is loaded
/// (cblas.hpp).
void set_library_environment();

/// A launch that a library refuses throws std::runtime_error with its words, on a host in the
/// thread that computes.
Kernel<MultiplyArgs> multiply_kernel();

}  // namespace shardstream::gemm
