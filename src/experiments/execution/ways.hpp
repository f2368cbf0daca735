// How the warps of a kernel diverge, counted by hand.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>

#include "experiments/warp_size.hpp"

namespace shardstream::experiments::execution {

/// The divergence of a branch.
struct Divergence {
  double divergent;  ///< share of the warps whose lanes go different ways
  double ways;       ///< average number of ways in a warp, which runs them one after the other
};

/// ways[i] is the way of thread i, below 32. Threads 32 w ... 32 w + 31 are warp w.
inline Divergence divergence_of(std::span<const std::uint8_t> ways) {
  std::size_t divergent = 0, all = 0, warps = 0;
  for (std::size_t first = 0; first < ways.size(); first += warp, ++warps) {
    std::bitset<warp> seen;
    for (const std::uint8_t way :
         ways.subspan(first, std::min<std::size_t>(warp, ways.size() - first))) {
      seen.set(way);
    }
    divergent += seen.count() > 1 ? 1 : 0;
    all += seen.count();
  }
  const auto count = static_cast<double>(warps);
  return {static_cast<double>(divergent) / count, static_cast<double>(all) / count};
}

/// The threads of a block that add at a level of a tree over its words.
enum class Adders {
  spread,     ///< thread t if t is a multiple of 2 s, with s = 1, 2, 4, ...
  neighbours  ///< thread t if t < s, with s = threads / 2, ..., 4, 2, 1
};

/// The share of the warps' branches that diverge in a tree over a block of `threads` threads, a
/// power of two. A warp has one branch at each level.
constexpr double divergent_in_tree(unsigned threads, Adders adders) {
  unsigned divergent = 0, branches = 0;
  for (unsigned s = 1; s < threads; s *= 2) {
    for (unsigned first = 0; first < threads; first += warp, ++branches) {
      unsigned adding = 0;
      for (unsigned t = first; t < first + warp; ++t) {
        adding += (adders == Adders::spread ? t % (2 * s) == 0 : t < s) ? 1 : 0;
      }
      divergent += adding > 0 && adding < warp ? 1 : 0;
    }
  }
  return static_cast<double>(divergent) / branches;
}

}  // namespace shardstream::experiments::execution
