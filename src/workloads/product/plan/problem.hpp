// A product, and the ranks for which it is planned.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/shard.hpp"
#include "kernels/gemm/grid.hpp"
#include "kernels/gemm/moments.hpp"
#include "kernels/gemm/precision.hpp"

namespace shardstream::workloads::product {

enum class Decomposition : std::uint8_t { automatic, rows, grid, split_k };

/// "auto", "rows", "grid", "split-k": the values of product.decomposition.
std::string_view word_of(Decomposition decomposition);

/// The form in which an operand is uploaded.
struct UploadedOperand {
  std::uint64_t element_bytes = 0;  ///< bytes of an element, after a conversion by readers
  /// Whether the uploaded data are not yet a panel, because they are transposed, have
  /// another type, or lack the panel's padding. A kernel then makes the panel in a separate buffer.
  bool raw = false;
};

/// The numbers of ranks that share rows of tiles, columns of tiles, and segments of K.
struct Box {
  std::uint64_t rows = 1, columns = 1, depth = 1;

  /// Ranks of one layer.
  std::uint64_t layer() const { return saturating_product(rows, columns); }
  std::uint64_t ranks() const { return saturating_product(layer(), depth); }
  /// The number of checksums of a batch: one of the upload and, if ranks gather A's panels, two for
  /// each part of the panel (as sent, as received). In a symmetric product there are also two for
  /// each part of B's panel, because both sides of the check are computed from the gathered panel.
  std::uint64_t batch_checksums(bool symmetric) const {
    return 1 + (columns > 1 ? 2 * columns : 0) + (symmetric && rows > 1 ? 2 * rows : 0);
  }

  bool operator==(const Box&) const = default;
};

/// The value of product.box: "2x1x4".
std::string text_of(const Box& box);
/// "rows", "grid 2 x 4", "split-k 2 x 1 x 4".
std::string words_of(Decomposition decomposition, const Box& box);

/// The values of product.decomposition and product.box.
struct RequestedPlacement {
  Decomposition decomposition = Decomposition::automatic;
  std::optional<Box> box = std::nullopt;  ///< if set, no other box is considered
};

/// The ranks that compute a product, all with the same resources.
struct Ranks {
  std::uint64_t count = 1;
  std::uint64_t device_memory = 0;  ///< bytes that each rank may use: the minimum over all ranks
  std::uint64_t other_bytes = 0;    ///< bytes of device memory that the caller needs in addition
  /// Bytes of host memory that a rank needs in addition to `device_memory`, for a message. 0 with
  /// CUDA, and if pipeline.gpu-memory was set.
  std::uint64_t host_bytes = 0;
  Backend backend = Backend::cuda;
  unsigned streams = 1;  ///< number of streams on which tiles take turns: gemm::multiply_streams()
  /// Bytes of the slots that all readers of a rank fill at the same time, and all writers empty. 0
  /// if nothing is read or written by threads of their own.
  std::uint64_t read_bytes = 0, written_bytes = 0;
  unsigned writers = 1;  ///< number of threads of a rank that take rows of C
};

/// The product, and the ranks for which it is planned. The same on every rank.
struct Problem {
  std::uint64_t m = 1, n = 1, k = 1;
  gemm::Precision precision = gemm::Precision::fp64;
  UploadedOperand a, b;
  bool reads_c = false;  ///< beta is not 0
  /// Whether C is stored. If not, a symmetric C is drained without its mirrored tiles.
  bool stores_c = true;
  /// Whether op(B) is the transpose of op(A). Then only one of a tile and its mirror is computed.
  /// It requires m = n and tile.m = tile.n, and that C is not read.
  bool symmetric = false;
  bool sums_variables = false;  ///< values are changed, so each variable is summed
  /// Whether elements of C can be NaN without samples. They then do not count in C's norm.
  bool may_lack_elements = false;
  /// Each tile has an accumulator of tile.m x tile.n for each moment. Panels have several planes if
  /// the product is pairwise; then it is symmetric and both operands are raw.
  gemm::Moments moments = {};
  /// Whether finished tiles on the diagonal have statistics of their variables.
  bool describes_variables() const { return sums_variables || moments.pairwise(); }
  gemm::Tile tile = {};
  RequestedPlacement requested = {};
  Ranks ranks = {};
};

}  // namespace shardstream::workloads::product
