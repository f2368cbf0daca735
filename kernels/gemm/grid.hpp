// How C is cut into tiles and K into blocks: a function of the problem, the precision and the
// backend alone, never of ranks or memory, so that the bits of C do not depend on these.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/gemm/precision.hpp"

namespace shardstream::gemm {

/// Padded edges, in elements, of a tile of C (m x n) and of a block of K: the shape of every call,
/// but for shallower blocks at the beginning of K.
struct Tile {
  std::uint64_t m, n, k;

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

/// The shape for C of m x n and sums over k, each at least 1. A GPU's edges suit its tensor cores'
/// tiles and rows aligned to 32 bytes. Rows of C and of its mirror are whole words of 8 bytes.
constexpr Tile tile_for(std::uint64_t m, std::uint64_t n, std::uint64_t k, Precision precision,
                        bool on_host) {
  const bool splits = precision == Precision::fp32x3;
  if (on_host) {
    const std::uint64_t deepest = splits                         ? most_split_k
                                  : precision == Precision::int8 ? most_float_int8_k
                                                                 : 2048;
    // Each tile costs its check and its way to the host once, which deep sums make up for; of their
    // few tiles a symmetric product computes fewer elements twice the smaller they are.
    const std::uint64_t parts = k / 8 >= m && k / 8 >= n ? 4 : 2;
    return {equal_edge(m, longest_host_edge(m, parts, precision), 8, 2),
            equal_edge(n, longest_host_edge(n, parts, precision), 8, 2),
            equal_edge(k, deepest, 8, 1)};
  }
  // Deeper blocks read and write C less often. But where C takes most of the memory, enough of K
  // must lie beside it to be computed while tiles leave: in four blocks where elements have two
  // bytes, in three of tf32's; with fp32, which takes longer, two will do (kernels/README.md).
  const std::uint64_t deepest = splits                         ? most_split_k
                                : precision == Precision::fp64 ? 4096
                                : precision == Precision::tf32 ? 5120
                                                               : 8064;
  return {equal_edge(m, 4096, 256, 16), equal_edge(n, 4096, 256, 16),
          equal_edge(k, deepest, 64, 16)};
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
  return precision != Precision::fp32x3 && tile.k % 64 == 0;
}

}  // namespace shardstream::gemm
