// How C is cut into tiles and K into blocks: a function of the problem, the precision and the
// backend alone, never of ranks or memory, so that the bits of C do not depend on these.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/gemm/precision.hpp"

namespace shardstream::gemm {

/// Padded edges, in elements, of a tile of C (m x n) and of a block of K: the shape of every call,
/// but for shallower blocks at the beginning of K. A call multiplies the block's lanes, equal parts
/// of its depth, side by side, each into an accumulator of its own.
struct Tile {
  std::uint64_t m, n, k;
  std::uint64_t lanes = 1;  ///< a power of two that divides k
  /// The edges of the tile that a GPU's library is asked for an algorithm for; 0: m and n. A bit of
  /// C depends on the algorithm, not on how much of C one call computes with it.
  std::uint64_t like_m = 0, like_n = 0;

  constexpr std::uint64_t lane_k() const { return k / lanes; }

  friend bool operator==(const Tile&, const Tile&) = default;
};

/// The edge of equal parts of x (at least 1), each of at most `most`, in as few parts as that
/// allows; rounded up to a multiple of `coarse` where a part is longer than that, else of `fine`.
/// `most` is a multiple of both.
constexpr std::uint64_t equal_edge(std::uint64_t x, std::uint64_t most, std::uint64_t coarse,
                                   std::uint64_t fine) {
  const auto ceil_div = [](std::uint64_t a, std::uint64_t b) {
    return a / b + (a % b != 0 ? 1 : 0);
  };
  const std::uint64_t part = ceil_div(x, ceil_div(x, most));
  const std::uint64_t granule = part > coarse ? coarse : fine;
  return ceil_div(part, granule) * granule;
}

/// The deepest K block of fp32x3. Tensor cores cut sums off, so that errors grow with the depth of
/// a call; sums of calls are rounded.
inline constexpr std::uint64_t most_split_k = 1024;

/// The deepest K block of int8 on a host: as floats, sums of so many products are exact.
inline constexpr std::uint64_t most_float_int8_k = (1 << 24) / (128 * 128);

/// The longest edge of a host's tile of C along an edge of x: one of `parts` of x, so that threads
/// have tiles to share, but from 128, below which calls are slow, to what the library's full rate
/// takes (kernels/README.md).
constexpr std::uint64_t longest_host_edge(std::uint64_t x, std::uint64_t parts,
                                          Precision precision) {
  const std::uint64_t longest = precision == Precision::fp64 ? 384 : 512;
  const std::uint64_t part = ((x + parts - 1) / parts + 7) / 8 * 8;
  return part < 128 ? 128 : part < longest ? part : longest;
}

/// Whether K is so much longer than C's edges, and C has so few tiles, that C and partial sums of
/// it are small beside the panels.
constexpr bool is_tall(std::uint64_t m, std::uint64_t n, std::uint64_t k, const Tile& tile) {
  const auto tiles = [](std::uint64_t x, std::uint64_t edge) { return x / edge + (x % edge != 0); };
  const std::uint64_t rows = tiles(m, tile.m), columns = tiles(n, tile.n);
  return k / 8 >= std::max(m, n) && rows <= 64 && columns <= 64 && rows * columns <= 64;
}

/// As many lanes as let one call fill a device of many multiprocessors, or give a host's threads
/// calls to share: up to eight. One if C fills it by itself, or if it is not tall. Split floats
/// stand in an order of their own, which has none.
constexpr std::uint64_t lanes_for(std::uint64_t m, std::uint64_t n, std::uint64_t k,
                                  const Tile& tile, Precision precision, bool on_host) {
  constexpr std::uint64_t enough_on_gpu = 128, enough_on_host = 3;
  // A host's library wants lanes of 512 and more.
  const std::uint64_t most = !on_host ? 8 : precision == Precision::int8 ? 2 : 4;
  if (precision == Precision::fp32x3 || !is_tall(m, n, k, tile)) return 1;
  // The part of C that a multiprocessor, or a thread, computes at a time.
  const std::uint64_t rows = on_host ? tile.m : 128, columns = on_host ? tile.n : 128;
  const std::uint64_t parts = ((m + rows - 1) / rows) * ((n + columns - 1) / columns);
  std::uint64_t lanes = 1;
  while (lanes < most && lanes * parts < (on_host ? enough_on_host : enough_on_gpu)) lanes *= 2;
  return lanes;
}

/// The depth of blocks with lanes, each of which is at most `deepest` deep: as blocks without, or a
/// 64th of k if that is more, up to panels of 64 MB with four bytes an element, so that starting a
/// block costs little beside it.
constexpr std::uint64_t block_with_lanes(std::uint64_t m, std::uint64_t n, std::uint64_t k,
                                         std::uint64_t lanes, std::uint64_t deepest) {
  constexpr std::uint64_t granule = 16;  // of a lane: rows on 32 bytes
  const std::uint64_t most = std::max(deepest, (std::uint64_t{1} << 24) / (m + n));
  const std::uint64_t wanted = std::clamp(k / 64, deepest, most);
  const std::uint64_t depth = std::clamp(wanted / lanes / granule * granule, granule, deepest);
  return equal_edge(k, lanes * depth, lanes * granule, lanes * granule);
}

/// The largest edge of tiles of x, a multiple of 256 from `least` to 4096, that pads x by hardly
/// more than any; but one of at most `preferred` if it pads x little more.
constexpr std::uint64_t fitting_edge(std::uint64_t x, std::uint64_t least,
                                     std::uint64_t preferred) {
  constexpr std::uint64_t granule = 256, most = 4096;
  const auto padded = [&](std::uint64_t edge) { return (x + edge - 1) / edge * edge; };
  std::uint64_t shortest = padded(most);
  for (std::uint64_t edge = most; edge >= least; edge -= granule) {
    shortest = std::min(shortest, padded(edge));
  }
  const auto largest = [&](std::uint64_t from, std::uint64_t longest) {
    std::uint64_t edge = from;
    while (edge >= least && padded(edge) > longest) edge -= granule;
    return edge;
  };
  const std::uint64_t edge = largest(preferred, shortest + shortest / 64);
  return edge >= least ? edge : largest(most, shortest + shortest / 128);
}

/// For a C that is not tall: the tiles that a GPU computes in place of `tile` with the same
/// algorithm, hence the same bits: such as pad C less, and of a small C so few rows of it that its
/// first tiles can leave before its last rows of A have come. A call still fills the GPU.
constexpr Tile fitted(Tile tile, std::uint64_t m, std::uint64_t n) {
  constexpr std::uint64_t granule = 256, longest = 4096, enough = std::uint64_t{125} << 15;
  if (tile.m < 1024 || tile.n < 2048) return tile;
  Tile made{tile.m, fitting_edge(n, 2048, longest), tile.k};
  const auto up = [&](std::uint64_t x) { return (x + granule - 1) / granule * granule; };
  const std::uint64_t least =
      std::clamp(up((enough + made.n - 1) / made.n), std::uint64_t{1024}, longest);
  const std::uint64_t preferred = std::clamp(up((m + 7) / 8), least, longest);
  const std::uint64_t edge = fitting_edge(m, least, preferred);
  const auto padded = [&](std::uint64_t each) { return (m + each - 1) / each * each; };
  if (padded(edge) <= padded(tile.m)) made.m = edge;
  if (made.m == tile.m && made.n == tile.n) return tile;
  made.like_m = tile.m;
  made.like_n = tile.n;
  return made;
}

/// The shape for C of m x n and sums over k, each at least 1. A GPU's edges suit its tensor cores'
/// tiles and rows aligned to 32 bytes. Rows of C and of its mirror are whole words of 8 bytes.
/// Tiles of a symmetric C are square.
constexpr Tile tile_for(std::uint64_t m, std::uint64_t n, std::uint64_t k, Precision precision,
                        bool on_host, bool symmetric = false) {
  const bool splits = precision == Precision::fp32x3;
  if (on_host) {
    const std::uint64_t deepest = splits                         ? most_split_k
                                  : precision == Precision::int8 ? most_float_int8_k
                                                                 : 2048;
    // Each tile costs its check and its way to the host once, which deep sums make up for; of their
    // few tiles a symmetric product computes fewer elements twice the smaller they are.
    const std::uint64_t parts = k / 8 >= m && k / 8 >= n ? 4 : 2;
    Tile tile{equal_edge(m, longest_host_edge(m, parts, precision), 8, 2),
              equal_edge(n, longest_host_edge(n, parts, precision), 8, 2),
              equal_edge(k, deepest, 8, 1)};
    tile.lanes = lanes_for(m, n, k, tile, precision, on_host);
    if (tile.lanes > 1) tile.k = block_with_lanes(m, n, k, tile.lanes, deepest);
    return tile;
  }
  // Deeper blocks read and write C less often. But where C takes most of the memory, enough of K
  // must lie beside it to be computed while tiles leave: in four blocks where elements have two
  // bytes, in three of tf32's; with fp32, which takes longer, two will do (kernels/README.md).
  const std::uint64_t deepest = splits                         ? most_split_k
                                : precision == Precision::fp64 ? 4096
                                : precision == Precision::tf32 ? 5120
                                                               : 8064;
  Tile tile{equal_edge(m, 4096, 256, 16), equal_edge(n, 4096, 256, 16),
            equal_edge(k, deepest, 64, 16)};
  tile.lanes = lanes_for(m, n, k, tile, precision, on_host);
  if (tile.lanes > 1) tile.k = block_with_lanes(m, n, k, tile.lanes, deepest);
  return symmetric || is_tall(m, n, k, tile) ? tile : fitted(tile, m, n);
}

/// Elements from one row of A's panel to the next, for a block of K that is `k` deep; what stands
/// behind k is nobody's. Of floats more than k where that takes at most half as much memory again,
/// and rows are whole words of 8 bytes: GPUs multiply rows faster that are a power of two apart
/// (kernels/README.md), hosts as fast rows that do not share the sets of a cache.
constexpr std::uint64_t a_ld(Precision precision, std::uint64_t k, bool on_host) {
  if (precision != Precision::fp32 || k % 2 != 0) return k;
  const std::uint64_t padded = on_host ? k + 16 : std::bit_ceil(k);
  return padded <= k + k / 2 ? padded : k;
}

/// Whether K may begin with blocks of a quarter and a half of tile.k: whoever computes then waits
/// less for its first panels. Blocks of fp32x3 are shallow anyway.
constexpr bool may_begin_shallow(const Tile& tile, Precision precision) {
  return precision != Precision::fp32x3 && tile.lanes == 1 && tile.k % 64 == 0;
}

}  // namespace shardstream::gemm
