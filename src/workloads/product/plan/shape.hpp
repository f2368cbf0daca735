// What a product in a box of ranks needs for each way to cut it into super-tiles: extents, bytes of
// device memory, bytes on the host link. Behind plan.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "workloads/product/plan/plan.hpp"

namespace shardstream::workloads {

/// Sums and products are the largest number where that is too large: more than any memory.
std::uint64_t product(std::initializer_list<std::uint64_t> factors);
std::uint64_t sum(std::initializer_list<std::uint64_t> terms);

/// Nodes of the tree over segments, from left to right; two that have the same parent become it.
class Stack {
 public:
  /// Returns how often the two at the top became one.
  std::uint64_t push(GemmNode node);
  const std::vector<GemmNode>& nodes() const { return nodes_; }

 private:
  std::vector<GemmNode> nodes_;
};

/// 1 unless gemm::is_tall(): k is at least eight times m and n, so that C and the partial sums of
/// it that ranks exchange are small beside the panels, and C has at most 64 tiles: more of them
/// keep many ranks busy by themselves, and every level of the tree would take memory for all of
/// them. Else the largest power of two that is at most 64, the number of blocks, and 512 by the
/// number of tiles.
///
/// So at most 512 ranks have something to compute where sums are split, 64 of a C of one tile. More
/// segments would keep more of them busy, but C's bits follow from the segments, which must not
/// depend on the ranks: one rank would then have another level of accumulators of every tile for
/// each doubling (64 segments have seven), and all would exchange more partial sums.
std::uint64_t segments_of(const GemmProblem& problem);

/// The numbers of parts that give different largest parts of `count` (at least 1), the fewest each:
/// from 1 up.
std::vector<std::uint64_t> numbers_of_parts(std::uint64_t count);

/// GemmPlan::depth().
Range depth_of(Range blocks, std::uint64_t tile_k, bool begins_shallow);

/// What follows from the problem and the box alone.
struct Shape : GemmLayout {
  Shape(const GemmProblem& problem, const Box& box);

  std::uint64_t max_rows, max_columns, max_blocks = 0;           ///< of any rank
  std::uint64_t panel_element, a_element, b_element, c_element;  ///< bytes, A's and B's as uploaded
  std::uint64_t tile_bytes;                                      ///< of an accumulator

  Range rows_of(std::uint64_t row) const { return share(tile_rows, row, box.rows); }
  Range columns_of(std::uint64_t column) const { return share(tile_columns, column, box.columns); }
  Range segments_of(std::uint64_t layer) const { return share(segments, layer, box.depth); }
  Range blocks_of(Range segments) const;
  Range depth(Range of) const { return depth_of(of, problem.tile.k, begins_shallow); }
  /// The nodes of a layer's segments.
  std::vector<GemmNode> nodes_of(std::uint64_t layer) const;
  /// The columns of the computed tiles of a row; two ranges, of which one or both may be empty.
  std::array<Range, 2> computed(std::uint64_t row) const;
  /// For each tile of a super-tile: its levels and, if there are several, its lanes.
  std::uint64_t accumulators() const {
    return levels + (problem.tile.lanes > 1 ? problem.tile.lanes : 0);
  }
  std::uint64_t b_part_rows(std::uint64_t depth) const { return ceil_div(depth, box.rows); }
  /// Rows of elements of a part of an A panel of `rows` rows of tiles.
  std::uint64_t a_part_rows(std::uint64_t rows) const;
  bool a_from_b(Range rows, Range columns) const;
};

/// A way to cut the tiles of every rank into super-tiles.
struct Cut {
  std::uint64_t row_passes = 1, column_passes = 1;
  /// 0: a rank's rows are shared equally among all row passes. Else the first pass has so many of
  /// `first_of`, the others share the rest.
  std::uint64_t first_rows = 0, first_of = 0;
  bool keeps_b = false;  ///< GemmPlan::keeps_b

  std::uint64_t passes() const { return product({row_passes, column_passes}); }
};

/// All that differ in their largest super-tile, the fewest passes each, from few to many; behind
/// them those that keep B.
std::vector<Cut> cuts_of(const Shape& shape);

/// The super-tile of pass `pass` of the ranks of a grid row and column. Its columns are those from
/// the first to the last that any rank of the grid column needs.
GemmSuperTile super_tile_of(const Shape& shape, const Cut& cut, std::uint64_t pass,
                            std::uint64_t row, std::uint64_t column);

/// The computed ones.
std::uint64_t count_tiles(const Shape& shape, const GemmSuperTile& super_tile);

/// The passes in which some rank has a tile to compute, in order.
std::vector<std::uint64_t> passes_with_tiles(const Shape& shape, const Cut& cut);

/// Super-tiles alike: the most of each that any rank has.
struct Pass {
  std::uint64_t rows = 0, columns = 0;   ///< of tiles
  std::uint64_t tiles = 0, drained = 0;  ///< computed ones; with their mirrors
  std::uint64_t uploaded_rows = 0;       ///< of tiles whose A panels are uploaded
  std::uint64_t transposed_rows = 0;     ///< of tiles whose A panels are of B
  std::uint64_t count = 1;               ///< super-tiles
  bool has_b = false;                    ///< kept from an earlier pass: B is not uploaded
};

/// The super-tiles of a cut: one by one where the product is symmetric, else by their sizes, the
/// largest first.
std::vector<Pass> passes_of(const Shape& shape, const Cut& cut);
/// A measure of what passes_of() takes, and how much of that is spent on a choice where less has
/// found something: some tenths of a second.
std::uint64_t work_of(const Shape& shape, const Cut& cut);
inline constexpr std::uint64_t max_work = 4'000'000;

/// The largest of all passes.
struct Extents {
  std::uint64_t rows = 0, columns = 0, tiles = 0, uploaded_rows = 0, transposed_rows = 0;
  std::uint64_t super_tiles = 0;
  std::uint64_t held_tiles = 0;  ///< of which accumulators stand at once
  bool keeps_b = false;
};
Extents extents_of(const Cut& cut, const std::vector<Pass>& passes);
/// No larger than extents_of() in anything, and quickly known.
Extents min_extents(const Shape& shape, const Cut& cut);

GemmBuffers buffers_of(const Shape& shape, const Extents& extents);
std::uint64_t batch_bytes(const GemmBuffers& buffers);  ///< of one in the ring
std::uint64_t check_bytes(const GemmBuffers& buffers);  ///< of the verification, but for y
/// With what the caller needs besides.
std::uint64_t device_bytes(const Shape& shape, const Extents& extents, std::uint64_t ring);

/// Bytes that a batch of the pass, of a block so deep, brings to a rank with the most of
/// everything: from the host, and from other ranks.
std::uint64_t upload_bytes(const Shape& shape, const Pass& pass, std::uint64_t depth);
std::uint64_t gather_bytes(const Shape& shape, const Pass& pass, std::uint64_t depth);
/// That `blocks` of them bring, the first ones of K among them: the sum of one of the two above.
std::uint64_t of_blocks(std::uint64_t (*bytes)(const Shape&, const Pass&, std::uint64_t),
                        const Shape& shape, const Pass& pass, std::uint64_t blocks);
/// That come from other ranks at the end of one of the pass's super-tiles.
std::uint64_t exchange_bytes(const Shape& shape, const Pass& pass);

/// GemmPlan::min_uploads but for what is read of C.
std::uint64_t min_uploads(const Shape& shape, std::uint64_t row, std::uint64_t column,
                          std::uint64_t layer);

}  // namespace shardstream::workloads
