// Divides C into tiles and K into blocks. The division depends only on the problem, the precision
// and the backend, never on ranks or memory, so that the bits of C do not depend on these either.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/gemm/precision.hpp"

namespace shardstream::gemm {

/// The shape of a library call, in elements: the padded edges of a tile of C (m x n) and the depth
/// k of a block of K. Only the first blocks of K may be shallower. A block may be divided into
/// lanes, which are equal parts of its depth. One call multiplies all lanes at the same time, each
/// into its own accumulator.
///
/// A symmetric product C = X^T X with few variables may be *narrow* (`fold` > 0). Then C is one
/// tile, and its panel X, k rows of n elements, is multiplied as a folded panel: the same memory,
/// read as k / fold rows of fold * n elements. The square of the folded panel has fold * n rows and
/// columns. X^T X is the sum of its `fold` diagonal blocks of n x n (unfold_kernel(), narrow.hpp).
struct Tile {
  std::uint64_t m, n, k;
  std::uint64_t lanes = 1;  ///< a power of two that divides k
  /// The edges of the tile for which a GPU's library chooses the algorithm; 0 means m and n. The
  /// bits of C depend on the algorithm, but not on how much of C one call computes with it.
  std::uint64_t like_m = 0, like_n = 0;
  std::uint64_t fold = 0;  ///< 0: not narrow; otherwise a power of two that divides lane_k()
  /// The number of moduli if residues are multiplied, else 0. For the library's product of 8-bit
  /// integers, the number of their planes, which one call multiplies.
  unsigned moduli = 0;

  constexpr std::uint64_t lane_k() const { return k / lanes; }
  constexpr bool is_narrow() const { return fold > 0; }
  /// Whether products are added into lanes, and from there into the tile's accumulator.
  constexpr bool has_lanes() const { return lanes > 1 || is_narrow(); }
  /// The row length of a folded panel, and the edge of its square.
  constexpr std::uint64_t folded_n() const { return fold * n; }
  /// The number of elements of a lane's accumulator.
  constexpr std::uint64_t lane_elements() const {
    return is_narrow() ? folded_n() * folded_n() : m * n;
  }

  friend bool operator==(const Tile&, const Tile&) = default;
};

/// Divides x >= 1 into the smallest number of equal parts that are not longer than `max`, and
/// returns the length of a part. It is rounded up to a multiple of `coarse` if it is longer than
/// `coarse`, otherwise to a multiple of `fine`. `max` must be a multiple of both.
constexpr std::uint64_t equal_edge(std::uint64_t x, std::uint64_t max, std::uint64_t coarse,
                                   std::uint64_t fine) {
  const auto ceil_div = [](std::uint64_t a, std::uint64_t b) {
    return a / b + (a % b != 0 ? 1 : 0);
  };
  const std::uint64_t part = ceil_div(x, ceil_div(x, max));
  const std::uint64_t granule = part > coarse ? coarse : fine;
  return ceil_div(part, granule) * granule;
}

/// The maximum edge of a tile on a host, along an edge of C of length x. It is x / parts, so that
/// the threads have several tiles to share. It is at least 128, since smaller calls are slow, and
/// at most `max`, at which the library reaches its full rate (kernels/MEASUREMENTS.md).
constexpr std::uint64_t longest_host_edge(std::uint64_t x, std::uint64_t parts, std::uint64_t max) {
  return std::clamp<std::uint64_t>(((x + parts - 1) / parts + 7) / 8 * 8, 128, max);
}

/// Whether a product is tall: k is at least 8 times m and n, and C has at most 64 tiles. Then C and
/// its partial sums are small compared with the panels.
constexpr bool is_tall(std::uint64_t m, std::uint64_t n, std::uint64_t k, const Tile& tile) {
  const auto tiles = [](std::uint64_t x, std::uint64_t edge) { return x / edge + (x % edge != 0); };
  const std::uint64_t rows = tiles(m, tile.m), columns = tiles(n, tile.n);
  return k / 8 >= std::max(m, n) && rows <= 64 && columns <= 64 && rows * columns <= 64;
}

/// The depth of a K block with lanes, before it is rounded. It is a 64th of k, but at least
/// `deepest`, the maximum depth of a lane, and at most 2^24 / (m + n). The last limit means panels
/// of 64 MB with four bytes per element. So the start of a block costs little compared with its
/// products.
constexpr std::uint64_t wanted_block(std::uint64_t m, std::uint64_t n, std::uint64_t k,
                                     std::uint64_t deepest) {
  return std::clamp(k / 64, deepest, std::max(deepest, (std::uint64_t{1} << 24) / (m + n)));
}

/// The number of lanes of a tall product. On a GPU there are enough lanes for one call to fill the
/// GPU, usually up to 8. If C has few columns, a GPU has up to 128, if the depth of a lane would
/// limit the depth of a block. On a host there are enough calls for the threads to share, with up
/// to 4 lanes. It is 1 if the tiles of C are enough, if the product is not tall, and for split
/// factors, which cannot be cut into lanes (factor.hpp).
constexpr std::uint64_t lanes_for(std::uint64_t m, std::uint64_t n, std::uint64_t k,
                                  const Tile& tile, const CallTraits& calls, Backend backend) {
  constexpr std::uint64_t enough_on_gpu = 128, enough_on_host = 3, most_on_gpu = 128;
  if (!is_tall(m, n, k, tile)) return 1;
  // The part of C that a multiprocessor, or a thread, computes at a time.
  const std::uint64_t rows = backend == Backend::host ? tile.m : 128,
                      columns = backend == Backend::host ? tile.n : 128;
  const std::uint64_t parts = ((m + rows - 1) / rows) * ((n + columns - 1) / columns);
  std::uint64_t lanes = 1;
  while (lanes < calls.max_lanes &&
         lanes * parts < (backend == Backend::host ? enough_on_host : enough_on_gpu)) {
    lanes *= 2;
  }
  if (lanes == 1 || backend == Backend::host) return lanes;
  const std::uint64_t block = wanted_block(m, n, k, calls.max_k);
  while (lanes < most_on_gpu && lanes * calls.max_k < block) lanes *= 2;
  return lanes;
}

/// The depth of a K block with lanes, each of which is at most `deepest` deep.
constexpr std::uint64_t block_with_lanes(std::uint64_t m, std::uint64_t n, std::uint64_t k,
                                         std::uint64_t lanes, std::uint64_t deepest) {
  constexpr std::uint64_t granule = 16;  // of a lane's depth: rows of 2 bytes begin at 32 bytes
  const std::uint64_t wanted = wanted_block(m, n, k, deepest);
  const std::uint64_t depth = std::clamp(wanted / lanes / granule * granule, granule, deepest);
  return equal_edge(k, lanes * depth, lanes * granule, lanes * granule);
}

/// The edge of tiles along an edge of C of length x: a multiple of 256 from `min` to 4096. Let s be
/// the minimum padded length of x. The result is the largest edge up to `preferred` that pads x to
/// at most s + s/64. If there is none, it is the largest edge that pads x to at most s + s/128.
constexpr std::uint64_t fitting_edge(std::uint64_t x, std::uint64_t min, std::uint64_t preferred) {
  constexpr std::uint64_t granule = 256, max = 4096;
  const auto padded = [&](std::uint64_t edge) { return (x + edge - 1) / edge * edge; };
  std::uint64_t shortest = padded(max);
  for (std::uint64_t edge = max; edge >= min; edge -= granule) {
    shortest = std::min(shortest, padded(edge));
  }
  const auto largest = [&](std::uint64_t from, std::uint64_t longest) {
    std::uint64_t edge = from;
    while (edge >= min && padded(edge) > longest) edge -= granule;
    return edge;
  };
  const std::uint64_t edge = largest(preferred, shortest + shortest / 64);
  return edge >= min ? edge : largest(max, shortest + shortest / 128);
}

/// A tile that a GPU computes instead of `tile` if the product is not tall. It uses the same
/// algorithm, so the bits are the same. It pads C less. For a small C it also has fewer rows, so
/// that the first tiles can be downloaded before the last rows of A have arrived. A call still
/// fills the GPU.
constexpr Tile fitted(Tile tile, std::uint64_t m, std::uint64_t n) {
  constexpr std::uint64_t granule = 256, longest = 4096, enough = std::uint64_t{125} << 15;
  if (tile.m < 1024 || tile.n < 2048) return tile;
  Tile made = tile;
  made.n = fitting_edge(n, 2048, longest);
  const auto up = [&](std::uint64_t x) { return (x + granule - 1) / granule * granule; };
  const std::uint64_t min =
      std::clamp(up((enough + made.n - 1) / made.n), std::uint64_t{1024}, longest);
  const std::uint64_t preferred = std::clamp(up((m + 7) / 8), min, longest);
  const std::uint64_t edge = fitting_edge(m, min, preferred);
  const auto padded = [&](std::uint64_t each) { return (m + each - 1) / each * each; };
  if (padded(edge) <= padded(tile.m)) made.m = edge;
  if (made.m == tile.m && made.n == tile.n) return tile;
  made.like_m = tile.m;
  made.like_n = tile.n;
  return made;
}

/// The length of the short edge up to which a C that is not tall is divided into strips.
inline constexpr std::uint64_t max_strip = 128;

/// A tile that a GPU computes instead of `tile` if C has few rows or few columns and the product is
/// not tall. Its long edge may be longer than 4096, since the costs of a tile (its calls, its
/// check, its download) would exceed those of its elements. A strip has about 2^20 elements.
constexpr Tile strip(Tile tile, std::uint64_t m, std::uint64_t n) {
  constexpr std::uint64_t elements = std::uint64_t{1} << 20, coarse = 256, fine = 16;
  const std::uint64_t longest = elements / std::min(tile.m, tile.n) / 4096 * 4096;
  if (m < n) {
    tile.n = equal_edge(n, longest, coarse, fine);
  } else {
    tile.m = equal_edge(m, longest, coarse, fine);
  }
  return tile;
}

/// The maximum number of variables of a narrow product.
inline constexpr std::uint64_t max_narrow = 128;

/// Whether a GPU computes a symmetric product of n variables and k samples as a narrow one (Tile).
/// Its sums must be divisible into lanes, and long compared with C.
constexpr bool is_narrow(std::uint64_t n, std::uint64_t k, Precision precision) {
  const PrecisionTraits& row = traits_of(precision);
  return n <= max_narrow && k / 8 >= n && row.gpu.max_lanes > 1 && !row.transposes_b_on_gpu;
}

/// The tile of a narrow product. Folded rows have at least 64 elements, so that the library's
/// smallest fast tiles fit, and are a multiple of 16 long, so that they are aligned. Blocks are a
/// 64th of k, but have 2^22 to 2^24 elements, since the calls for a block take as long as the
/// upload of 2^21. With up to 64 lanes, one call fills a GPU. There are only as many lanes as have
/// 256 folded rows in a block of the wanted depth.
constexpr Tile narrow_tile(std::uint64_t n, std::uint64_t k) {
  constexpr std::uint64_t enough = 64, granule = 16, max_lanes = 64, min_folded_rows = 256;
  constexpr std::uint64_t min_block = std::uint64_t{1} << 22, max_block = std::uint64_t{1} << 24;
  const std::uint64_t fine = n <= 64 ? 4 : granule, edge = (n + fine - 1) / fine * fine;
  Tile tile{.m = edge, .n = edge, .k = 0, .fold = 1};
  while (tile.folded_n() < enough || tile.folded_n() % granule != 0) tile.fold *= 2;
  const std::uint64_t block = std::min(k, std::clamp(k / 64, min_block / edge, max_block / edge));
  while (tile.lanes < max_lanes && block >= 2 * tile.lanes * tile.fold * min_folded_rows) {
    tile.lanes *= 2;
  }
  const std::uint64_t unit = tile.lanes * tile.fold * granule;  // whole granules of each lane
  tile.k = equal_edge(k, (block + unit - 1) / unit * unit, unit, unit);
  return tile;
}

/// The depth of a block of K if residues are multiplied, the same on every backend.
constexpr std::uint64_t residue_depth(std::uint64_t k, Precision precision) {
  return equal_edge(k, traits_of(precision).gpu.max_k, 64, 16);
}

/// The tile for a C of m x n elements and sums over k, all at least 1. On a GPU the edges fit the
/// tiles of tensor cores and keep rows aligned to 32 bytes; those of a narrow product keep folded
/// rows aligned. The bytes of a row of C, and of its mirror, are a multiple of 8. Tiles of a
/// symmetric C are square. A symmetric product is narrow only if it `may_be_narrow`.
constexpr Tile tile_for(std::uint64_t m, std::uint64_t n, std::uint64_t k, Precision precision,
                        Backend backend, bool symmetric = false, bool may_be_narrow = true) {
  const CallTraits& calls = calls_of(precision, backend);
  const unsigned moduli = traits_of(precision).moduli;
  if (backend == Backend::host) {
    const std::uint64_t max_edge = traits_of(precision).max_host_edge;
    // Each tile has costs of its own (check, download), which matter less if sums are deep. And in
    // a symmetric product, smaller tiles compute fewer elements twice.
    const std::uint64_t parts = k / 8 >= m && k / 8 >= n ? 4 : 2;
    Tile tile{equal_edge(m, longest_host_edge(m, parts, max_edge), 8, 2),
              equal_edge(n, longest_host_edge(n, parts, max_edge), 8, 2),
              moduli > 0 ? residue_depth(k, precision) : equal_edge(k, calls.max_k, 8, 1)};
    tile.moduli = moduli;
    tile.lanes = lanes_for(m, n, k, tile, calls, backend);
    if (tile.lanes > 1) tile.k = block_with_lanes(m, n, k, tile.lanes, calls.max_k);
    return tile;
  }
  if (symmetric && may_be_narrow && is_narrow(n, k, precision)) return narrow_tile(n, k);
  Tile tile{equal_edge(m, 4096, 256, 16), equal_edge(n, 4096, 256, 16),
            moduli > 0 ? residue_depth(k, precision) : equal_edge(k, calls.max_k, 64, 16)};
  tile.moduli = moduli;
  tile.lanes = lanes_for(m, n, k, tile, calls, backend);
  if (tile.lanes > 1) tile.k = block_with_lanes(m, n, k, tile.lanes, calls.max_k);
  if (symmetric || is_tall(m, n, k, tile)) return tile;
  return std::min(m, n) <= max_strip ? strip(tile, m, n) : fitted(tile, m, n);
}

/// The leading dimension of A's panel for a block of K of depth `k`: elements from one row to the
/// next. Elements after the first k of a row are unused. For fp32 it may be larger than k: to the
/// next power of two on GPUs, which then multiply faster (kernels/MEASUREMENTS.md), and by 16 on
/// hosts, so that rows do not map to the same sets of a cache. It stays k if k is odd, or if the
/// panel would need more than half as much memory again.
constexpr std::uint64_t a_ld(Precision precision, std::uint64_t k, Backend backend) {
  if (!traits_of(precision).pads_a || k % 2 != 0) return k;
  const std::uint64_t padded = backend == Backend::host ? k + 16 : std::bit_ceil(k);
  return padded <= k + k / 2 ? padded : k;
}

/// Whether K may begin with two blocks of a quarter and one of a half of tile.k, which shortens the
/// wait for the first panels. Blocks of split elements and of narrow products are small anyway, and
/// each block of residues has its own errors.
constexpr bool may_begin_shallow(const Tile& tile, Precision precision) {
  return traits_of(precision).products == 1 && tile.moduli == 0 && tile.lanes == 1 &&
         !tile.is_narrow() && tile.k % 64 == 0;
}

}  // namespace shardstream::gemm
