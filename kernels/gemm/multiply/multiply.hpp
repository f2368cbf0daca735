// Products of panels. Each tile is one call of a library: cuBLASLt on a GPU, a CBLAS on a host. All
// matrices are row-major.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/gemm/grid.hpp"
#include "kernels/gemm/multiply/factor.hpp"
#include "kernels/gemm/residues/residues.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::gemm {

class MultiplyPlan;

/// The position of a tile in the product of two panels, in tiles. It is the product of the tile.m
/// rows of A from row * tile.m on and the tile.n columns of B from column * tile.n on.
struct TileAt {
  std::uint64_t row, column;
};

/// All positions in a product of rows x columns tiles, row by row.
std::vector<TileAt> all_tiles(std::uint64_t rows, std::uint64_t columns);

/// The number of streams that should multiply tiles in turns. On a GPU it is two, so that the first
/// thread blocks of the next tile run while the last ones of a tile do. On a host, threads share
/// the tiles of one launch, so one stream is enough.
constexpr unsigned multiply_streams(Backend backend) {
  return backend == Backend::host ? 1 : 2;
}

/// Computes `count` tiles. Let tile t be at row i and column j (`at`): A_i are its rows of A, and
/// B_j its columns of B. If `first` is set, the tile becomes A_i B_j; otherwise A_i B_j is added to
/// it. The tile is dense at tiles + t * tile.m * tile.n.
///
/// With lanes, a tile consists of tile.lanes accumulators, one after another, at
/// tiles + t * tile.lanes * tile.m * tile.n. Lane l gets the products of tile.lane_k() columns of
/// A_i and rows of B_j, beginning with l * tile.lane_k().
///
/// With a narrow tile, b is the panel X, dense k x tile.n, and the product is the square X'^T X' of
/// the folded panel X' (Tile). There is one tile, at {0, 0}, and each lane's accumulator has
/// tile.lane_elements() elements. a and ldb are ignored.
///
/// If residues are multiplied (tile.moduli > 0), a and b are the panels, and `residues` has their
/// residues.
///
/// The bits of a tile depend only on its elements, on the plan's precision, shape and algorithm(),
/// on k and on `first`. They do not depend on its position, on ldb, on the number of tiles or on
/// the number of threads. With residues they depend only on its elements, k, tile.moduli and
/// `first`.
struct MultiplyArgs {
  const MultiplyPlan* plan;  ///< for the backend of the stream
  /// Depth of the panels: tile.k, or also its half or quarter if may_begin_shallow().
  std::uint64_t k;
  /// The factors (factor.hpp), with the elements of panels (panel_element_bytes). Their depth is
  /// d = factor_depth(precision, k). A's factor has d columns and the leading dimension a_ld(). B's
  /// factor has d rows and the leading dimension ldb, a multiple of tile.n. If
  /// multiplies_transposed_b(), B's factor has d columns instead, and ldb is a multiple of 16,
  /// usually d. Both begin at a multiple of 256 bytes, or a whole number of tiles after one.
  const void* a;
  const void* b;
  std::uint64_t ldb;
  void* tiles;       ///< of accumulator_type(precision); aligned like the factors
  const TileAt* at;  ///< `count` positions in host memory, which must live until the work is done
  std::uint64_t count;
  bool first;
  unsigned workspace = 0;  ///< index of the GPU plan's workspace, below multiply_streams()
  struct {
    Residues a, b;
  } residues = {};
};

/// Owns the library's handle, workspaces and algorithms for calls of one shape. Launches with the
/// same workspace must not run at the same time: use one stream, or events. The plan must live
/// until the launches are done.
class MultiplyPlan {
 public:
  virtual ~MultiplyPlan() = default;
  MultiplyPlan(const MultiplyPlan&) = delete;
  MultiplyPlan& operator=(const MultiplyPlan&) = delete;

  /// A description of the library, its version and the algorithm for each depth, for users.
  virtual const std::string& algorithm() const = 0;

  /// The functions of multiply_kernel(). Both throw std::logic_error if the plan is for the other
  /// backend.
  virtual void multiply(const MultiplyArgs& args, unsigned part, unsigned parts) const = 0;
  virtual void enqueue(const MultiplyArgs& args, CudaStream stream) const = 0;

 protected:
  MultiplyPlan() = default;
};

/// The maximum memory of the library's workspaces on a GPU, in bytes.
inline constexpr std::uint64_t max_workspace = std::uint64_t{64} << 20;

/// The number of rows of a tile whose products of residues a GPU computes at a time: a part of the
/// tile that is a multiple of 16, and needs at most 512 MiB.
constexpr std::uint64_t residue_rows(const Tile& tile) {
  constexpr std::uint64_t most = std::uint64_t{512} << 20, granule = 16;
  const std::uint64_t row = tile.moduli * tile.n * sizeof(std::int32_t);
  std::uint64_t parts = 1;
  while (tile.m / parts * row > most || tile.m % (parts * granule) != 0) ++parts;
  return tile.m / parts;
}

/// The maximum device memory of a plan for a GPU, in bytes, without the library's code.
constexpr std::uint64_t plan_memory(const Tile& tile) {
  if (tile.moduli == 0) return max_workspace;
  return max_workspace + multiply_streams(Backend::cuda) * residue_rows(tile) * tile.moduli *
                             tile.n * sizeof(std::int32_t);
}

/// A plan for tiles of this shape, which must come from tile_for(); tile.k is the depth of panels.
/// On GPUs the plan is for the current GPU of the calling thread. Loads libraries and allocates
/// device memory, so do not call it in the timed part. Throws std::runtime_error with the library's
/// message if the library rejects the shape, or is not part of this build.
std::unique_ptr<MultiplyPlan> make_multiply_plan(Precision precision, const Tile& tile,
                                                 Backend backend);

/// Whether this program was built with a CBLAS.
bool host_multiply_exists();

/// The CBLAS that determines the bits of products on hosts. All fields are "-" if this program was
/// built without one, and "unknown" if it cannot be loaded here.
struct HostLibrary {
  std::string version;         ///< with its name and options
  std::string core;            ///< the processor that its kernels are for: "Zen", "Haswell"
  std::string core_chosen_by;  ///< "user" (OPENBLAS_CORETYPE), "program" or "library"
  std::string threads;         ///< number of threads of one call
};
HostLibrary host_library();

/// Sets the environment variable that the CBLAS reads when it is loaded (cblas.hpp). Call it once,
/// while the process has one thread.
void set_library_environment();

/// If the library rejects a call, std::runtime_error with its message is thrown: on a host in the
/// thread that computes, on a GPU by the launch.
Kernel<MultiplyArgs> multiply_kernel();

}  // namespace shardstream::gemm
